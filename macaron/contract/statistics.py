"""Statistics of paired binary outcomes: pure functions of four counts, exact where that is cheap.

Every result is finite or None, never NaN: the counts say what is known, and nothing known gives
the widest interval and a p-value of 1.

Sources:
    McNemar (1947) in its exact conditional form; Tango (1998), Statistics in Medicine 17:891-908,
    score interval for the difference of paired proportions; Wilson (1927); Holm (1979).
    Fagerland, Lydersen and Laake (2014), Statistics in Medicine 33:2850-2875, compare them and
    recommend Tango's interval down to small samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

Alternative = Literal["two-sided", "greater"]


@dataclass(frozen=True)
class PairedCounts:
    """How two sides did on the same items."""

    n: int
    """Items with a valid outcome on both sides."""
    both: int
    """Items passed by both."""
    gains: int
    """Items passed by the challenger only."""
    losses: int
    """Items passed by the champion only."""

    @property
    def champion_rate(self) -> float:
        """Share of items passed by the champion; 0 without items."""
        return (self.both + self.losses) / self.n if self.n else 0.0

    @property
    def challenger_rate(self) -> float:
        """Share of items passed by the challenger; 0 without items."""
        return (self.both + self.gains) / self.n if self.n else 0.0

    @property
    def difference(self) -> float:
        """Challenger's share minus champion's, in [-1, 1]; 0 without items."""
        return (self.gains - self.losses) / self.n if self.n else 0.0

    @property
    def discordance(self) -> float:
        """Share of items on which the sides differ; 0 without items."""
        return (self.gains + self.losses) / self.n if self.n else 0.0


def count_pairs(champion: Sequence[bool], challenger: Sequence[bool]) -> PairedCounts:
    """The counts of two equally long sequences over the same items, in the same order."""
    pairs = list(zip(champion, challenger, strict=True))
    return PairedCounts(
        n=len(pairs),
        both=pairs.count((True, True)),
        gains=pairs.count((False, True)),
        losses=pairs.count((True, False)),
    )


def mcnemar_exact(gains: int, losses: int, alternative: Alternative = "greater") -> float:
    """p-value of "the sides do not differ", given the number of items on which they differ.

    Under it each such item is a fair coin. `greater` asks whether the challenger is better;
    `two-sided` doubles the smaller tail. No such item gives 1.
    """
    from scipy.stats import binom

    total = gains + losses
    if not total:
        return 1.0
    upper = float(binom.sf(gains - 1, total, 0.5))
    if alternative == "greater":
        return upper
    return min(1.0, 2 * min(upper, float(binom.cdf(gains, total, 0.5))))


def tango_score(counts: PairedCounts, difference: float) -> float:
    """Tango's score statistic of "the true difference is this one", standard normal under it.

    `difference` lies strictly between -1 and 1. The variance takes the share of losses at its
    maximum likelihood under that hypothesis, the root of a quadratic.
    """
    n, gains, losses = counts.n, counts.gains, counts.losses
    b = (2 * n - gains + losses) * difference - gains - losses
    c = -losses * difference * (1 - difference)
    share = max(0.0, (sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n))
    variance = n * (2 * share + difference * (1 - difference))
    excess = gains - losses - n * difference
    if variance <= 0:
        return 0.0 if not excess else float("inf") if excess > 0 else float("-inf")
    return excess / sqrt(variance)


def tango_interval(counts: PairedCounts, confidence: float) -> tuple[float, float]:
    """Two-sided score interval for challenger's share minus champion's; no items give (-1, 1)."""
    tail = (1 - confidence) / 2
    return lower_bound(counts, 1 - tail), upper_bound(counts, 1 - tail)


def lower_bound(counts: PairedCounts, confidence: float) -> float:
    """One-sided: the true difference is above this with the given confidence."""
    from scipy.stats import norm

    if not counts.n:
        return -1.0
    z = float(norm.ppf(confidence))
    # The statistic falls as the hypothesised difference grows; at -1 it is past every z.
    return _root(lambda d: tango_score(counts, d) - z, -1.0, counts.difference)


def upper_bound(counts: PairedCounts, confidence: float) -> float:
    """One-sided: the true difference is below this with the given confidence."""
    swapped = PairedCounts(counts.n, counts.both, counts.losses, counts.gains)
    return -lower_bound(swapped, confidence)


def non_inferior(counts: PairedCounts, margin: float, alpha: float) -> bool:
    """Whether the challenger is worse by less than `margin`, with confidence 1 - alpha.

    The same as rejecting Tango's test of "worse by the margin" at level alpha.
    """
    return lower_bound(counts, 1 - alpha) > -margin


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order: compare each with the family's alpha."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def wilson_interval(passed: int, n: int, confidence: float) -> tuple[float, float]:
    """Score interval for one share; no items give (0, 1)."""
    from scipy.stats import norm

    if not n:
        return 0.0, 1.0
    z2 = float(norm.ppf((1 + confidence) / 2)) ** 2
    share = passed / n
    centre = share + z2 / (2 * n)
    half = sqrt(z2 * (share * (1 - share) + z2 / (4 * n)) / n)
    scale = 1 + z2 / n
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def mcnemar_power(n: int, discordance: float, difference: float, alpha: float) -> float:
    """Probability that the exact one-sided test rejects at level alpha.

    The true share of items on which the sides differ is `discordance` (at least |difference|),
    and the challenger is better by `difference`. Exact: summed over every number of such items.
    """
    import numpy as np
    from scipy.stats import binom

    total = np.arange(1, n + 1)
    # The smallest number of gains that rejects; one more than `total` where none does.
    critical = binom.isf(alpha, total, 0.5) + 1
    gain_share = (discordance + difference) / (2 * discordance)
    rejects = binom.sf(critical - 1, total, gain_share)
    return float((binom.pmf(total, n, discordance) * rejects).sum())


def detectable_effect(n: int, discordance: float, alpha: float, power: float = 0.8) -> float | None:
    """The smallest true gain that the exact one-sided test finds with the given power.

    Args:
        n: items.
        discordance: share of items on which the sides were seen to differ; a gain larger than
            this needs at least as many differing items as the gain, and is given them.
        alpha: level of the test.
        power: wanted probability of rejection.

    Returns:
        A difference of shares, to 1e-4; None when not even a gain of 1 is found so often.
    """
    if not n or mcnemar_power(n, 1.0, 1.0, alpha) < power:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        reached = mcnemar_power(n, max(discordance, middle), middle, alpha) >= power
        low, high = (low, middle) if reached else (middle, high)
    return high


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses zero, by bisection to 1e-12; an end where it does not."""
    while high - low > 1e-12:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2
