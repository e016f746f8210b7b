"""Finals: which of the candidates does best on all tasks, and what that is worth on unseen ones.

What covers failures may lose what was passed before, so a winner is chosen among all practice
tasks by successive halving, and judged on tasks that neither the search nor the choice has met.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from macaron.contract.statistics import PairedCounts, count_pairs, holm, mcnemar_exact
from macaron.contract.statistics import tango_interval as interval
from macaron.environments.base import Task
from macaron.errors import ConfigError
from macaron.hcp.document import HCP
from macaron.mindforge.expand.attempts import Ask, Batches
from macaron.mindforge.expand.candidate import Candidate, edited, unchanged
from macaron.mindforge.expand.population import front
from macaron.mindforge.expand.search import Found, Setting
from macaron.mindforge.expand.slices import slice_of

FIRST = 16
"""Practice tasks of the first round; twice as many in each later one."""


@dataclass(frozen=True)
class Row:
    """One specialist's unseen tasks under the old and the new harness."""

    specialist: str
    candidate: str
    n: int
    gains: int
    """Tasks that only the new harness passes."""
    losses: int
    old: float
    new: float
    difference: float
    low: float
    high: float
    """95 %, for new minus old."""
    p: float
    """One-sided exact McNemar, adjusted by Holm over the specialists."""
    accepted: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def finalists(found: Found, key: str, batches: Batches, count: int) -> list[Candidate]:
    """The base, and the candidates that lead on most failures."""
    best = front(batches.of("widened", "search"))
    base, *others = found.candidates[key]
    leading = [one for one in others if best.get(one.id)]
    leading.sort(key=lambda one: (-len(best[one.id]), one.id))
    return [base, *leading[: count - 1]]


def halve(candidates: Sequence[Candidate], tasks: Sequence[Task], batches: Batches) -> Candidate:
    """The best of them by successive halving; the first is the base, and stays to the end.

    Args:
        candidates: of one specialist.
        tasks: of its practice, in random order.
        batches: where attempts are made.
    """
    base, *left = candidates
    size = FIRST
    while left:
        chosen = tasks[:size]
        names = [base, *left]
        asks = [Ask(one.id, one.hcp, task, 0) for one in names for task in chosen]
        passed: dict[str, int] = {one.id: 0 for one in names}
        for attempt in batches.run("finals", asks):
            passed[attempt.candidate] += attempt.passed
        left.sort(key=lambda one: (-passed[one.id], one.id))
        if size >= len(tasks):
            return left[0] if passed[left[0].id] > passed[base.id] else base
        left = left[: max(1, len(left) // 2)]
        size *= 2
    return base


def merge(base: HCP, winners: Sequence[Candidate]) -> tuple[HCP, list[Candidate]]:
    """One harness of the winners of several specialists, and those that it is made of.

    A winner whose edits reach into what another specialist depends on is left out.
    """
    hcp, kept = base, list[Candidate]()
    for winner in winners:
        try:
            tried = edited(hcp, winner.edits)
        except ConfigError:
            continue
        wanted = {key: slice_of(hcp, key) for key in base.specialists}
        wanted[winner.specialist] = slice_of(winner.hcp, winner.specialist)
        if all(slice_of(tried, key) == digest for key, digest in wanted.items()):
            hcp, kept = tried, [*kept, winner]
    return hcp, kept


def judge(
    setting: Setting,
    winners: Sequence[Candidate],
    unseen: Mapping[str, Sequence[Task]],
    batches: Batches,
) -> list[Row]:
    """Every winner against the base on the same unseen tasks and seeds."""
    asks = []
    for winner in winners:
        base = unchanged(setting.base, winner.specialist)
        tasks = unseen[winner.specialist]
        asks += [Ask(one.id, one.hcp, task, 0) for one in (base, winner) for task in tasks]
    passed = {
        (attempt.candidate, attempt.task): attempt.passed
        for attempt in batches.run("unseen", asks)
        if attempt.reward is not None
    }
    counts = [
        _counts(setting.base, winner, unseen[winner.specialist], passed) for winner in winners
    ]
    adjusted = holm([mcnemar_exact(c.gains, c.losses) for c in counts])
    return [
        _row(setting, winner, count, p)
        for winner, count, p in zip(winners, counts, adjusted, strict=True)
    ]


def _counts(
    base: HCP, winner: Candidate, tasks: Sequence[Task], passed: Mapping[tuple[str, str], bool]
) -> PairedCounts:
    old = unchanged(base, winner.specialist).id
    both = [t.id for t in tasks if (old, t.id) in passed and (winner.id, t.id) in passed]
    return count_pairs([passed[old, t] for t in both], [passed[winner.id, t] for t in both])


def _row(setting: Setting, winner: Candidate, counts: PairedCounts, p: float) -> Row:
    low, high = interval(counts, 0.95)
    gates = setting.contract.gates
    return Row(
        specialist=winner.specialist,
        candidate=winner.id,
        n=counts.n,
        gains=counts.gains,
        losses=counts.losses,
        old=counts.champion_rate,
        new=counts.challenger_rate,
        difference=counts.difference,
        low=low,
        high=high,
        p=p,
        accepted=p <= gates.alpha and counts.difference >= gates.minimum_effect,
    )
