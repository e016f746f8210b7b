"""vLLM's OpenAI-compatible server: `/v1/completions` with token ids, LoRAs by model name.

Needs vLLM 0.10.2 or later (`return_token_ids`), started with `--enable-lora` and
`VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from macaron.engines.base import SampleParams
from macaron.engines.upstream.dialect import Ask, Chunk, UnreadableError
from macaron.engines.upstream.wire import Refusal

# The server's own defaults come from the model's generation_config.json; ours are said outright.
PLAIN = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
_SEEDS = 2**63


class VLLM:
    """`Dialect` of vLLM."""

    name = "vLLM"
    owner = "vllm"

    def __init__(self, base: str) -> None:
        self.base = base

    def sampling(self, prompt: Sequence[int], lora: str | None, params: SampleParams) -> Ask:
        """Asks for a streamed response."""
        body = {
            "model": lora or self.base,
            "prompt": list(prompt),
            "max_tokens": params.max_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "seed": params.seed % _SEEDS,
            # The base's own end of turn ends nothing here unless it is among ours.
            "stop_token_ids": list(params.stop_ids),
            "ignore_eos": True,
            "logprobs": 0,
            "return_token_ids": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            **PLAIN,
        }
        return Ask("/v1/completions", body)

    def chunk(self, event: Mapping[str, Any], have: int) -> Chunk:
        """What an event adds."""
        details = (event.get("usage") or {}).get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens")
        if not event.get("choices"):
            return Chunk(cached=cached)
        choice = event["choices"][0]
        ids = choice.get("token_ids")
        if ids is None:
            raise UnreadableError("no token ids; vLLM 0.10.2 or later gives them")
        logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
        if ids and (logprobs is None or len(logprobs) != len(ids) or None in logprobs):
            raise UnreadableError("no log-probability for each token")
        return Chunk(ids, logprobs or (), choice.get("finish_reason"), cached)

    def scoring(self, prompt: Sequence[int], option: Sequence[int], lora: str | None) -> Ask:
        """Asks for the option's log-probabilities, as part of a prompt."""
        body = {
            "model": lora or self.base,
            "prompt": [*prompt, *option],
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 1,
            **PLAIN,
        }
        return Ask("/v1/completions", body)

    def score(self, answer: Mapping[str, Any], option: Sequence[int]) -> float:
        """log p(option | prompt)."""
        found = answer["choices"][0].get("prompt_logprobs")
        if not found or len(found) < len(option):
            raise UnreadableError("no prompt log-probabilities")
        places = zip(found[-len(option) :], option, strict=True)
        # JSON makes the token ids that are keys into text.
        return sum(float(place[str(token)]["logprob"]) for place, token in places)

    def loading(self, name: str, folder: str) -> Ask:
        """Asks to load a LoRA."""
        return Ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": folder})

    def unloading(self, name: str) -> Ask:
        """Asks to forget a LoRA."""
        return Ask("/v1/unload_lora_adapter", {"lora_name": name})

    def already(self, refusal: Refusal, name: str) -> bool:
        """Whether it is loaded already."""
        return refusal.status == 400 and "already been loaded" in refusal.message

    def unknown(self, refusal: Refusal) -> bool:
        """Whether it is not loaded."""
        return refusal.status == 404
