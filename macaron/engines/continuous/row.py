"""One request in the engine: what is to be read, and what has been sampled or scored so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from macaron.engines.base import Completion, SampleParams, StopReason
from macaron.engines.continuous.prefix import names
from macaron.engines.randomness import uniforms


class Sink(Protocol):
    """Where a request's results go; called on the engine's thread, in order."""

    def push(self, tokens: list[int], cached: int) -> None:
        """Further tokens of a response."""
        ...

    def finish(self, result: Any) -> None:
        """The `Completion`, or an option's scores."""
        ...

    def fail(self, error: Exception) -> None:
        """It ended in a fault."""
        ...


@dataclass(eq=False)
class Row:
    """A request; `filled` of its columns are in its slot."""

    ids: NDArray[np.int64]
    """What is read before anything is sampled."""
    positions: NDArray[np.int64]
    lows: NDArray[np.int64]
    """First column after the prompt that a token sees; 0 in the prompt."""
    prompt: int
    """Tokens of the prompt, the first of `ids`."""
    adapter: str | None
    sink: Sink
    blocks: list[bytes]
    """Names of the prompt's blocks in the prefix cache, but for one with its last token."""
    filled: int = 0
    slot: int = -1
    cached: int = 0
    cancelled: bool = False

    @property
    def left(self) -> int:
        """Tokens still to read."""
        return len(self.ids) - self.filled

    @property
    def columns(self) -> int:
        """The most it can come to fill."""
        return len(self.ids)


@dataclass(eq=False)
class Sampling(Row):
    """A response."""

    params: SampleParams = field(default_factory=lambda: SampleParams(1))
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    uniform: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def columns(self) -> int:
        """The most it can come to fill."""
        return self.prompt + self.params.max_tokens

    @property
    def reason(self) -> StopReason | None:
        """Why it has ended; None while it goes on."""
        if self.tokens and self.tokens[-1] in self.params.stop_ids:
            return "stop"
        ended = self.cancelled or len(self.tokens) >= self.params.max_tokens
        return "length" if ended else None

    def completion(self) -> Completion:
        """What was sampled."""
        return Completion(self.tokens, self.logprobs, self.reason or "length")

    def read(self) -> list[int]:
        """The tokens whose states are in the slot."""
        return [*self.ids.tolist(), *self.tokens][: self.filled]


@dataclass(eq=False)
class Ranking(Row):
    """Options after one prompt, read as branches of it in one row."""

    options: Sequence[Sequence[int]] = ()
    targets: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Column -> the options that go on from it and their next tokens."""
    scores: list[float] = field(default_factory=list)


def sampling(
    prompt: Sequence[int], adapter: str | None, params: SampleParams, sink: Sink
) -> Sampling:
    """A response to a prompt."""
    nought = np.zeros(1, dtype=np.int64)
    return Sampling(
        ids=np.asarray(prompt, dtype=np.int64),
        positions=np.arange(len(prompt)),
        lows=np.zeros(len(prompt), dtype=np.int64),
        prompt=len(prompt),
        adapter=adapter,
        sink=sink,
        blocks=list(names(prompt[:-1], adapter)),
        params=params,
        uniform=uniforms(params.seed, nought, nought, params.max_tokens)[0],
    )


def ranking(
    prompt: Sequence[int], options: Sequence[Sequence[int]], adapter: str | None, sink: Sink
) -> Ranking:
    """Options to rank after a prompt."""
    ids, positions, lows = list(prompt), list(range(len(prompt))), [0] * len(prompt)
    targets: dict[int, list[tuple[int, int]]] = {}
    for option, tokens in enumerate(options):
        low = len(ids)
        targets.setdefault(len(prompt) - 1, []).append((option, tokens[0]))
        for place, token in enumerate(tokens[1:]):
            targets[low + place] = [(option, token)]
        ids += tokens[:-1]
        positions += range(len(prompt), len(prompt) + len(tokens) - 1)
        lows += [low] * (len(tokens) - 1)
    return Ranking(
        ids=np.array(ids, dtype=np.int64),
        positions=np.array(positions, dtype=np.int64),
        lows=np.array(lows, dtype=np.int64),
        prompt=len(prompt),
        adapter=adapter,
        sink=sink,
        blocks=list(names(prompt[:-1], adapter)),
        options=options,
        targets=targets,
        scores=[0.0] * len(options),
    )


def end(row: Row) -> None:
    """Gives a row's client what there is."""
    row.sink.finish(row.completion() if isinstance(row, Sampling) else [])
