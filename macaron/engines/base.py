"""Sampling tokens from (base, adapter): token ids in, token ids and log-probabilities out.

Text never passes here, so that what was sampled is never tokenised again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

StopReason = Literal["stop", "length"]


@dataclass(frozen=True)
class SampleParams:
    """How to sample one batch."""

    max_tokens: int
    """Longest response, in tokens, the stop token included."""
    temperature: float = 1.0
    """0 is greedy."""
    seed: int = 0
    """The same seed, prompts and adapter give the same tokens on the same machine."""
    stop_ids: tuple[int, ...] = ()
    """A response ends with the first of these, which is kept as its last token."""
    top_p: float = 1.0
    """Only the likeliest tokens that together have this probability can be drawn."""


@dataclass(frozen=True)
class Completion:
    """One sampled response."""

    token_ids: list[int]
    logprobs: list[float]
    """log p(token | prefix) under the distribution sampled from; one per token."""
    stop_reason: StopReason
    expert_ids: list[list[list[int]]] = field(default_factory=list)
    """[token][layer][k] where the base is sparse and the engine records routes, else empty."""


class Engine(Protocol):
    """Something that samples."""

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        adapter: str | None,
        params: SampleParams,
        n: int = 1,
        seeds: Sequence[int] | None = None,
    ) -> list[list[Completion]]:
        """`n` responses to each prompt from the named adapter revision (None: the bare base).

        With `seeds`, one a prompt, a prompt's responses are those it would have alone, whatever
        else is in the call; without, they depend on `params.seed` and its place.
        """
        ...

    def rank(
        self,
        prompts: Sequence[Sequence[int]],
        options: Sequence[Sequence[int]],
        adapter: str | None,
    ) -> list[list[float]]:
        """log p(option | prompt), summed over the option's tokens: [prompt][option]."""
        ...
