"""Allocation: which candidate tries which open task next, by Thompson sampling.

A candidate's chance on a kind of task is believed from its own tries there and, where those are
few, from all its tries. Tasks that nothing seems to help get fewer tries by themselves.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from macaron.environments.base import Task
from macaron.mindforge.expand.attempts import Attempt
from macaron.mindforge.expand.candidate import Candidate

STRENGTH = 2.0
"""Tries that a candidate's record on all kinds counts for on one of them."""


class Beliefs:
    """What is believed of every candidate on every kind."""

    def __init__(self) -> None:
        self._passed: Counter[tuple[str, str]] = Counter()
        self._tried: Counter[tuple[str, str]] = Counter()

    def learn(self, attempts: Sequence[Attempt]) -> None:
        """Takes attempts in; those without a valid reward say nothing."""
        for attempt in attempts:
            if attempt.reward is None:
                continue
            for key in ((attempt.candidate, attempt.kind), (attempt.candidate, "")):
                self._tried[key] += 1
                self._passed[key] += attempt.passed

    def shape(self, candidate: str, kind: str) -> tuple[float, float]:
        """The parameters of the Beta distribution of its chance."""
        overall, own = (candidate, ""), (candidate, kind)
        share = (self._passed[overall] + 1) / (self._tried[overall] + 2)
        passed, tried = self._passed[own], self._tried[own]
        return STRENGTH * share + passed, STRENGTH * (1 - share) + tried - passed

    def mean(self, candidate: str, kind: str) -> float:
        """Its expected chance."""
        a, b = self.shape(candidate, kind)
        return a / (a + b)


@dataclass(frozen=True)
class Choice:
    """A candidate for a task."""

    candidate: Candidate
    task: Task
    expected: float
    """Chance that it passes."""


def is_greedy(candidate: Candidate) -> bool:
    """Whether another try of it would be the same."""
    return candidate.hcp.specialists[candidate.specialist].temperature == 0


def choose(
    tasks: Sequence[Task],
    candidates: Mapping[str, Sequence[Candidate]],
    beliefs: Beliefs,
    tried: set[tuple[str, str]],
    count: int,
    rng: random.Random,
) -> list[Choice]:
    """At most `count` choices, one a task, those with the highest drawn chance first.

    Args:
        tasks: that nothing has passed yet.
        candidates: specialist -> those that may be played.
        beliefs: so far.
        tried: (candidate, task) pairs that were played.
        count: of the batch.
        rng: of the search.
    """
    drawn: list[tuple[float, int, Choice]] = []
    for place, task in enumerate(tasks):
        kind = f"{task.environment}/{task.kind}"
        options = [
            (rng.betavariate(*beliefs.shape(one.id, kind)), one)
            for one in candidates.get(task.specialist, ())
            if not (is_greedy(one) and (one.id, task.id) in tried)
        ]
        if options:
            chance, best = max(options, key=lambda option: option[0])
            drawn.append((-chance, place, Choice(best, task, beliefs.mean(best.id, kind))))
    return [choice for _, _, choice in sorted(drawn, key=lambda one: one[:2])[:count]]
