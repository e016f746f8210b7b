"""SGLang's native server: `/generate` with token ids, LoRAs by `lora_path`.

Started with `--enable-lora`, `--max-lora-rank` and `--lora-target-modules`.
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
_SEEDS = 2**31


class SGLang:
    """`Dialect` of SGLang."""

    name = "SGLang"
    owner = "sglang"

    def __init__(self, base: str) -> None:
        self.base = base

    def sampling(self, prompt: Sequence[int], lora: str | None, params: SampleParams) -> Ask:
        """Asks for a streamed response."""
        sampling = {
            "max_new_tokens": params.max_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            # Heeded where the server runs with --enable-deterministic-inference.
            "sampling_seed": params.seed % _SEEDS,
            "stop_token_ids": list(params.stop_ids),
            # With it, SGLang heeds no stop token at all.
            "ignore_eos": not params.stop_ids,
            "no_stop_trim": True,
            "skip_special_tokens": False,
            **PLAIN,
        }
        return Ask("/generate", {**self._body(prompt, lora, sampling), "stream": True})

    def chunk(self, event: Mapping[str, Any], have: int) -> Chunk:
        """What an event adds; by a server's flag, events hold all tokens or the new ones only."""
        meta = event["meta_info"]
        new = int(meta["completion_tokens"]) - have
        finish = meta.get("finish_reason") or {}
        if finish.get("type") == "abort":
            raise UnreadableError(f"aborted: {finish.get('message', '')}")
        found = meta.get("output_token_logprobs")
        if new < 0 or (new and (found is None or len(found) < new)):
            raise UnreadableError("no log-probability for each token")
        entries = found[len(found) - new :] if new else []
        return Chunk(
            [int(entry[1]) for entry in entries],
            [float(entry[0]) for entry in entries],
            finish.get("type"),
            meta.get("cached_tokens"),
        )

    def scoring(self, prompt: Sequence[int], option: Sequence[int], lora: str | None) -> Ask:
        """Asks for the option's log-probabilities, as part of a prompt."""
        sampling = {"max_new_tokens": 1, "temperature": 0.0, **PLAIN}
        body = self._body([*prompt, *option], lora, sampling)
        # The first one returned is of no use: nothing was computed before it.
        return Ask("/generate", {**body, "logprob_start_len": len(prompt) - 1})

    def score(self, answer: Mapping[str, Any], option: Sequence[int]) -> float:
        """log p(option | prompt)."""
        found = answer["meta_info"].get("input_token_logprobs") or []
        entries = found[-len(option) :]
        if [entry[1] for entry in entries] != list(option):
            raise UnreadableError("no prompt log-probabilities")
        return sum(float(entry[0]) for entry in entries)

    def loading(self, name: str, folder: str) -> Ask:
        """Asks to load a LoRA."""
        return Ask("/load_lora_adapter", {"lora_name": name, "lora_path": folder})

    def unloading(self, name: str) -> Ask:
        """Asks to forget a LoRA."""
        return Ask("/unload_lora_adapter", {"lora_name": name})

    def already(self, refusal: Refusal, name: str) -> bool:
        """Whether it is loaded already: a refusal lists what is."""
        body = refusal.body if isinstance(refusal.body, dict) else {}
        return name in (body.get("loaded_adapters") or ())

    def unknown(self, refusal: Refusal) -> bool:
        """Whether it is not loaded."""
        return "not loaded" in refusal.message or "does not exist" in refusal.message

    def _body(
        self, prompt: Sequence[int], lora: str | None, sampling: Mapping[str, Any]
    ) -> dict[str, Any]:
        body = {"input_ids": list(prompt), "sampling_params": sampling, "return_logprob": True}
        return {**body, "lora_path": lora} if lora else body
