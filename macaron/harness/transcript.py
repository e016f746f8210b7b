"""A transcript: the ids that a specialist has seen and sampled, in their order.

It only grows at its end, or is cut back to where it was; no id in it is ever rendered again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Transcript:
    """Three sequences of one length, an element a token."""

    ids: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    """True on sampled tokens."""
    logprobs: list[float] = field(default_factory=list)
    """log p of sampled tokens under the distribution sampled from; 0 on the others."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def last(self) -> int | None:
        """The last id."""
        return self.ids[-1] if self.ids else None

    def give(self, ids: Sequence[int]) -> None:
        """Appends ids that were not sampled."""
        self._append(ids, [0.0] * len(ids), False)

    def sampled(self, ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Appends a response.

        Raises:
            ValueError: it has not one log-probability a token.
        """
        if len(ids) != len(logprobs):
            raise ValueError(f"{len(ids)} sampled ids with {len(logprobs)} log-probabilities")
        self._append(ids, logprobs, True)

    def cut(self, length: int) -> None:
        """Forgets all but the first `length` tokens."""
        del self.ids[length:], self.mask[length:], self.logprobs[length:]

    def _append(self, ids: Sequence[int], logprobs: Sequence[float], sampled: bool) -> None:
        self.ids.extend(ids)
        self.logprobs.extend(logprobs)
        self.mask.extend([sampled] * len(ids))
