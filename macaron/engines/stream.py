"""Sampling for a server: responses arrive piece by piece, of many adapters at once.

What a prompt samples depends on its adapter, its parameters and its seed alone, never on what else
runs; it is what `Engine.sample` gives for the same seed.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from macaron.engines.base import Completion, SampleParams


@dataclass(frozen=True)
class EngineStats:
    """Counts since the engine began; the last four are of this moment."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that a prefix cache held already."""
    sampled_tokens: int = 0
    responses: int = 0
    running: int = 0
    """Responses that are being sampled."""
    waiting: int = 0
    """Responses that wait for room."""
    cache_bytes: int = 0
    """What the prefix cache holds."""
    adapters: int = 0
    """Loaded."""


class Ticket(Protocol):
    """One response, from its request on."""

    cached_tokens: int
    """Prompt tokens that were in the prefix cache; known with the first piece."""

    def pieces(self) -> AsyncIterator[list[int]]:
        """The token ids as they are sampled, one or more at a time, up to the response's end.

        Raises:
            ServiceError: the engine failed.
        """
        ...

    async def completion(self) -> Completion:
        """The whole response, once it has ended; raises as `pieces` does."""
        ...

    def cancel(self) -> None:
        """Ends it now; what was sampled is its completion, with the stop reason "length"."""
        ...


class StreamEngine(Protocol):
    """Something that samples for many sessions at once. Of one event loop."""

    def submit(self, prompt: Sequence[int], adapter: str | None, params: SampleParams) -> Ticket:
        """Begins a response to one prompt; `params.seed` is its own.

        Raises:
            ConfigError: no such adapter is loaded, or the prompt is empty or too long.
            BusyError: too much waits already.
        """
        ...

    async def rank(
        self, prompt: Sequence[int], options: Sequence[Sequence[int]], adapter: str | None
    ) -> list[float]:
        """log p(option | prompt), summed over each option's tokens."""
        ...

    async def load(self, revision: str, folder: Path) -> None:
        """Loads an adapter revision beside the others; once loaded, it does nothing.

        Raises:
            DigestError: it does not fit the base.
        """
        ...

    async def unload(self, revision: str) -> None:
        """Forgets an adapter revision once no response needs it; unknown ones are forgotten."""
        ...

    def stats(self) -> EngineStats:
        """Counts for the metrics."""
        ...

    async def close(self) -> None:
        """Ends all that runs."""
        ...
