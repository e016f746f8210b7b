"""What a router is worth on labelled turns: accuracy, confusion, calibration, compliance.

Pure functions over scores; a share is never without its count.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from macaron.contract.statistics import wilson_interval
from macaron.environments.base import Task


@dataclass(frozen=True)
class Routed:
    """A turn and what the router made of it."""

    task: Task
    probabilities: Mapping[str, float]
    """Label -> probability; they add up to 1."""

    @property
    def chosen(self) -> str:
        """The likeliest label; the first of equals."""
        return max(self.probabilities, key=self.probabilities.__getitem__)

    @property
    def right(self) -> bool:
        """Whether that is the turn's label."""
        return self.chosen == self.task.reference


@dataclass(frozen=True)
class Share:
    """Right ones among some."""

    right: int
    n: int

    @property
    def value(self) -> float:
        """In [0, 1]; NaN of none."""
        return self.right / self.n if self.n else math.nan

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's, of the share."""
        return wilson_interval(self.right, self.n, confidence)


@dataclass(frozen=True)
class Bin:
    """The turns whose likeliest label has a probability in (low, high]."""

    low: float
    high: float
    n: int
    confidence: float
    """Their mean probability."""
    accuracy: float
    """Their share of right labels."""


def softmax(scores: Sequence[float]) -> list[float]:
    """Probabilities from log-probabilities of the labels alone.

    A score that is no number counts as the worst, so that a label comes out all the same.
    """
    finite = [s if math.isfinite(s) else -math.inf for s in scores]
    top = max(finite)
    if top == -math.inf:
        return [1 / len(scores)] * len(scores)
    weights = [math.exp(s - top) for s in finite]
    return [w / sum(weights) for w in weights]


def routed(
    tasks: Sequence[Task], scores: Iterable[Sequence[float]], labels: Sequence[str]
) -> list[Routed]:
    """The turns with the probabilities of the labels.

    Args:
        tasks: turns.
        scores: [turn][label], log-probabilities, as `Engine.rank` gives them.
        labels: in the order of the scores.
    """
    return [
        Routed(task, dict(zip(labels, softmax(row), strict=True)))
        for task, row in zip(tasks, scores, strict=True)
    ]


def accuracy(
    rows: Iterable[Routed], by: Callable[[Task], str] = lambda _: "all"
) -> dict[str, Share]:
    """Shares of right labels, by what `by` says of a task; names in the alphabet's order."""
    right, count = Counter[str](), Counter[str]()
    for row in rows:
        count[by(row.task)] += 1
        right[by(row.task)] += row.right
    return {name: Share(right[name], count[name]) for name in sorted(count)}


def confusion(rows: Iterable[Routed], labels: Sequence[str]) -> list[list[int]]:
    """Counts [right label][chosen label]."""
    pairs = Counter((row.task.reference, row.chosen) for row in rows)
    return [[pairs[right, chosen] for chosen in labels] for right in labels]


def reliability(rows: Sequence[Routed], bins: int = 10) -> list[Bin]:
    """Confidence against accuracy in bins of equal width; empty bins are left out."""
    parts: dict[int, list[Routed]] = {}
    for row in rows:
        place = math.ceil(row.probabilities[row.chosen] * bins) - 1
        parts.setdefault(min(max(place, 0), bins - 1), []).append(row)
    return [
        Bin(
            low=place / bins,
            high=(place + 1) / bins,
            n=len(part),
            confidence=sum(r.probabilities[r.chosen] for r in part) / len(part),
            accuracy=sum(r.right for r in part) / len(part),
        )
        for place, part in sorted(parts.items())
    ]


def calibration_error(rows: Sequence[Routed], bins: int = 10) -> float:
    """Expected calibration error: mean |confidence - accuracy| over the bins, by their turns."""
    found = reliability(rows, bins)
    return sum(b.n * abs(b.confidence - b.accuracy) for b in found) / len(rows)


def compliance(rows: Sequence[Routed], labels: Sequence[str]) -> Share:
    """Turns whose choice is exactly one of the labels."""
    return Share(sum(row.chosen in labels for row in rows), len(rows))
