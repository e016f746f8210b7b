"""One suite's gate: from outcomes on the same items to a row of the verdict.

A row has no NaN: what could not be measured is None, and then the gate fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from macaron.contract.document import Gates, Suite
from macaron.contract.statistics import (
    PairedCounts,
    count_pairs,
    detectable_effect,
    lower_bound,
    tango_interval,
)
from macaron.errors import ConfigError

Outcome = tuple[str, bool | None]
"""(item id, passed); None where the verifier itself failed."""

MAX_INVALID = 0.05
"""Share of a suite's items that may be without a valid outcome before it counts as unmeasured."""


@dataclass(frozen=True)
class SuiteOutcomes:
    """How both sides did on one suite's items; the same items, in any order."""

    champion: Sequence[Outcome]
    challenger: Sequence[Outcome]


@dataclass(frozen=True)
class Row:
    """One suite of a verdict. Shares are in [0, 1]; None where no item had a valid outcome."""

    suite: str
    role: str
    n: int
    """Items with a valid outcome on both sides."""
    invalid: int
    """Items dropped because a verifier failed on either side."""
    champion: float | None
    challenger: float | None
    difference: float | None
    low: float | None
    """Tango's two-sided interval of the difference, at confidence 1 - alpha."""
    high: float | None
    bound: float | None
    """One-sided lower bound of the difference, at confidence 1 - alpha; the gate's number."""
    gains: int
    """Items passed by the challenger only."""
    losses: int
    """Items passed by the champion only."""
    p: float
    """Exact one-sided McNemar: the challenger is better."""
    p_holm: float | None
    """Adjusted over the improve suites; None for a guard."""
    detectable: float | None
    """Gain that n items find with 80 % power at Holm's strictest level; None: not even 1."""
    measured: bool
    not_worse: bool = False
    improved: bool = False
    gate: Literal["pass", "fail"] = "fail"
    """fail blocks a promotion; a suite that just did not gain passes."""
    text: str = ""
    """The gate's result in words."""


def measure(suite: Suite, outcomes: SuiteOutcomes) -> PairedCounts:
    """Counts over the items that are valid on both sides.

    Raises:
        ConfigError: the items are not as many as the contract asks for, once each, and the
            same on both sides.
    """
    champion, challenger = dict(outcomes.champion), dict(outcomes.challenger)
    fault = ""
    if len(champion) != len(outcomes.champion) or len(challenger) != len(outcomes.challenger):
        fault = "an item was measured twice"
    elif champion.keys() != challenger.keys():
        fault = "champion and challenger were measured on different items"
    elif len(champion) != suite.items:
        fault = f"measured on {len(champion)} items, the contract asks for {suite.items}"
    if fault:
        raise ConfigError(
            fault, where=f"suite {suite.name}", mend="measure both sides on the same sealed items"
        )
    valid = [
        (left, right)
        for item, left in champion.items()
        if left is not None and (right := challenger[item]) is not None
    ]
    return count_pairs([left for left, _ in valid], [right for _, right in valid])


def gate(
    suite: Suite,
    counts: PairedCounts,
    gates: Gates,
    p: float,
    p_holm: float | None,
    strictest: float,
) -> Row:
    """One suite's row.

    Args:
        suite: the suite.
        counts: what `measure` gave.
        gates: the contract's gates.
        p: the suite's own p-value of "the challenger is better".
        p_holm: the same, adjusted over the improve suites; None for a guard.
        strictest: the level that Holm asks of the smallest p-value.
    """
    invalid = suite.items - counts.n
    low, high = tango_interval(counts, 1 - gates.alpha)
    known = counts.n > 0
    row = Row(
        suite=suite.name,
        role=suite.role,
        n=counts.n,
        invalid=invalid,
        champion=counts.champion_rate if known else None,
        challenger=counts.challenger_rate if known else None,
        difference=counts.difference if known else None,
        low=low if known else None,
        high=high if known else None,
        bound=lower_bound(counts, 1 - gates.alpha) if known else None,
        gains=counts.gains,
        losses=counts.losses,
        p=p,
        p_holm=p_holm,
        detectable=detectable_effect(counts.n, counts.discordance, strictest),
        measured=invalid <= MAX_INVALID * suite.items,
    )
    return _decide(row, gates)


def _decide(row: Row, gates: Gates) -> Row:
    if not row.measured or row.bound is None or row.difference is None:
        return replace(
            row,
            text=f"{row.suite}: unmeasured, {row.invalid} of {row.n + row.invalid} items had no "
            f"valid score (at most {MAX_INVALID:.0%} may)",
        )
    not_worse = row.bound > -gates.margin
    significant = row.p_holm is not None and row.p_holm <= gates.alpha
    improved = significant and row.difference >= gates.minimum_effect
    return replace(
        row,
        not_worse=not_worse,
        improved=improved,
        gate="pass" if not_worse else "fail",
        text=f"{row.suite}: {100 * row.difference:+.1f} points, "
        + _words(row, gates, row.bound, not_worse, improved),
    )


def _words(row: Row, gates: Gates, bound: float, not_worse: bool, improved: bool) -> str:
    """The rest of the sentence; shares as points (hundredths)."""
    if not not_worse:
        return (
            f"could be worse by {-100 * bound:.1f} (the margin is {100 * gates.margin:.1f}), "
            f"{row.gains} gained and {row.losses} lost of {row.n}"
        )
    if row.p_holm is None:
        return "not worse"
    if improved:
        return f"a gain (p {row.p_holm:.2g})"
    if row.p_holm > gates.alpha:
        return f"not worse; no significant gain (p {row.p_holm:.2g})"
    return f"not worse; below the least gain that counts ({100 * gates.minimum_effect:.1f})"
