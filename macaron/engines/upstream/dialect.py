"""What vLLM and SGLang say in different words; token ids in, token ids out, never text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from macaron.engines.base import SampleParams
from macaron.engines.upstream.wire import Refusal


@dataclass(frozen=True)
class Ask:
    """One POST."""

    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Chunk:
    """What an event adds to a response."""

    token_ids: Sequence[int] = ()
    logprobs: Sequence[float] = ()
    finish: str | None = None
    """Why it ended; None while it goes on."""
    cached: int | None = None
    """Prompt tokens that were in the server's prefix cache, where it says so."""


class UnreadableError(Exception):
    """The server's answer lacks what was asked for."""


class Dialect(Protocol):
    """One kind of server. Methods that read raise `UnreadableError`."""

    name: str
    owner: str
    """What `/v1/models` says of the base."""
    base: str
    """The base's name there."""

    def sampling(self, prompt: Sequence[int], lora: str | None, params: SampleParams) -> Ask:
        """Asks for a streamed response."""
        ...

    def chunk(self, event: Mapping[str, Any], have: int) -> Chunk:
        """What an event adds to the `have` tokens there are."""
        ...

    def scoring(self, prompt: Sequence[int], option: Sequence[int], lora: str | None) -> Ask:
        """Asks for the option's log-probabilities."""
        ...

    def score(self, answer: Mapping[str, Any], option: Sequence[int]) -> float:
        """log p(option | prompt)."""
        ...

    def loading(self, name: str, folder: str) -> Ask:
        """Asks to load a LoRA from a folder that the server sees under the same path."""
        ...

    def unloading(self, name: str) -> Ask:
        """Asks to forget a LoRA."""
        ...

    def already(self, refusal: Refusal, name: str) -> bool:
        """Whether loading was refused because it is loaded."""
        ...

    def unknown(self, refusal: Refusal) -> bool:
        """Whether a request was refused because its LoRA is not loaded."""
        ...
