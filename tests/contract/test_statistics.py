"""Statistics against published worked examples, brute-force enumeration and exact coverage."""

from itertools import product
from math import comb, isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macaron.contract.statistics import (
    PairedCounts,
    count_pairs,
    detectable_effect,
    holm,
    lower_bound,
    mcnemar_exact,
    mcnemar_power,
    non_inferior,
    tango_interval,
    tango_score,
    upper_bound,
    wilson_interval,
)

# Airway hyper-responsiveness in 21 children before and after stem cell transplantation (Bentur
# et al. 2009), the example of Fagerland, Lydersen and Laake (2013, 2014): p12 = 1, p21 = 7.
BENTUR = PairedCounts(n=21, both=1, gains=7, losses=1)

counts = st.tuples(*[st.integers(0, 40)] * 4).map(
    lambda c: PairedCounts(n=sum(c), both=c[0], gains=c[1], losses=c[2])
)


def trinomial(n: int, gains: int, losses: int, p_gain: float, p_loss: float) -> float:
    ways = comb(n, gains) * comb(n - gains, losses)
    rest = 1 - p_gain - p_loss
    return float(ways * p_gain**gains * p_loss**losses * rest ** (n - gains - losses))


def test_mcnemar_matches_published() -> None:
    assert mcnemar_exact(7, 1, "two-sided") == pytest.approx(0.0703, abs=5e-5)
    assert mcnemar_exact(7, 1) == pytest.approx(9 / 256)
    assert mcnemar_exact(0, 0) == mcnemar_exact(0, 0, "two-sided") == 1.0
    assert mcnemar_exact(3, 3, "two-sided") == 1.0


def test_mcnemar_is_the_enumerated_tail() -> None:
    for gains, losses in product(range(6), repeat=2):
        signs = list(product((0, 1), repeat=gains + losses))
        upper = sum(sum(s) >= gains for s in signs) / len(signs)
        lower = sum(sum(s) <= gains for s in signs) / len(signs)
        assert mcnemar_exact(gains, losses) == pytest.approx(upper)
        assert mcnemar_exact(gains, losses, "two-sided") == pytest.approx(
            min(1.0, 2 * min(upper, lower))
        )


def test_tango_matches_published() -> None:
    low, high = tango_interval(BENTUR, 0.95)
    assert (low, high) == (pytest.approx(0.026, abs=5e-4), pytest.approx(0.517, abs=5e-4))


def test_tango_without_discordance_has_its_closed_form() -> None:
    low, high = tango_interval(PairedCounts(n=20, both=5, gains=0, losses=0), 0.95)
    z2 = 1.959964**2
    assert high == pytest.approx(z2 / (20 + z2), abs=1e-6)
    assert low == pytest.approx(-high)


def test_tango_variance_is_at_the_constrained_maximum() -> None:
    """The quadratic's root against a fine search of the likelihood."""
    for difference in (-0.2, -0.05, 0.1, 0.3):
        gains, losses, n = BENTUR.gains, BENTUR.losses, BENTUR.n
        best, share = 0.0, 0.0
        for step in range(1, 10000):
            q = step / 10000
            p, rest = q + difference, 1 - 2 * q - difference
            if p > 0 and rest > 0:
                likelihood = p**gains * q**losses * rest ** (n - gains - losses)
                best, share = max((best, share), (likelihood, q))
        excess = gains - losses - n * difference
        expected = excess / (n * (2 * share + difference - difference**2)) ** 0.5
        assert tango_score(BENTUR, difference) == pytest.approx(expected, abs=2e-3)


def test_tango_covers_what_it_promises() -> None:
    """Exact coverage over every outcome at n = 25, for four truths."""
    n, confidence = 25, 0.9
    intervals = {
        (g, b): tango_interval(PairedCounts(n, 0, g, b), confidence)
        for g in range(n + 1)
        for b in range(n + 1 - g)
    }
    for p_gain, p_loss in ((0.1, 0.1), (0.3, 0.1), (0.05, 0.2), (0.4, 0.4)):
        covered = sum(
            trinomial(n, g, b, p_gain, p_loss)
            for (g, b), (low, high) in intervals.items()
            if low <= p_gain - p_loss <= high
        )
        assert confidence - 0.035 < covered < confidence + 0.06, (p_gain, p_loss, covered)


def test_non_inferiority_keeps_its_level() -> None:
    """Truly worse by exactly the margin: called non-inferior about alpha of the time, not more."""
    n, margin, alpha = 60, 0.1, 0.05
    for p_gain in (0.02, 0.1):
        wrong = sum(
            trinomial(n, g, b, p_gain, p_gain + margin)
            for g in range(n + 1)
            for b in range(n + 1 - g)
            if trinomial(n, g, b, p_gain, p_gain + margin) > 1e-9
            and non_inferior(PairedCounts(n, 0, g, b), margin, alpha)
        )
        assert wrong < alpha + 0.02, (p_gain, wrong)


@settings(max_examples=60, deadline=None)
@given(counts)
def test_bounds_are_finite_ordered_and_antisymmetric(c: PairedCounts) -> None:
    low, high = tango_interval(c, 0.95)
    assert -1 <= low <= c.difference + 1e-9 and c.difference - 1e-9 <= high <= 1
    swapped = PairedCounts(c.n, c.both, c.losses, c.gains)
    assert lower_bound(swapped, 0.95) == pytest.approx(-upper_bound(c, 0.95), abs=1e-9)
    assert low <= lower_bound(c, 0.95) + 1e-9
    assert isfinite(mcnemar_exact(c.gains, c.losses))


def test_no_items_say_nothing() -> None:
    nothing = PairedCounts(0, 0, 0, 0)
    assert tango_interval(nothing, 0.95) == (-1.0, 1.0)
    assert not non_inferior(nothing, 0.05, 0.05)
    assert wilson_interval(0, 0, 0.95) == (0.0, 1.0)
    assert detectable_effect(0, 0.0, 0.05) is None
    assert nothing.difference == nothing.champion_rate == 0.0


def test_holm_matches_the_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_between_raw_and_bonferroni(p: list[float]) -> None:
    for raw, adjusted in zip(p, holm(p), strict=True):
        assert raw <= adjusted <= min(1.0, len(p) * raw) + 1e-12


def test_wilson_matches_newcombe() -> None:
    """Newcombe (1998), Statistics in Medicine 17:857-872, table I, method 3."""
    published = {(81, 263): (0.2553, 0.3662), (15, 148): (0.0624, 0.1605), (0, 20): (0, 0.1611)}
    for (passed, n), expected in published.items():
        assert wilson_interval(passed, n, 0.95) == pytest.approx(expected, abs=5e-5)


def test_power_is_the_enumerated_probability() -> None:
    n, discordance, difference, alpha = 12, 0.6, 0.4, 0.05
    p_gain, p_loss = (discordance + difference) / 2, (discordance - difference) / 2
    rejects = sum(
        trinomial(n, g, b, p_gain, p_loss)
        for g in range(n + 1)
        for b in range(n + 1 - g)
        if mcnemar_exact(g, b) <= alpha
    )
    assert mcnemar_power(n, discordance, difference, alpha) == pytest.approx(rejects)


def test_detectable_effect_has_the_power_it_names() -> None:
    effect = detectable_effect(400, 0.1, 0.0125)
    assert effect is not None and 0.03 < effect < 0.07
    assert mcnemar_power(400, 0.1, effect, 0.0125) >= 0.8
    assert mcnemar_power(400, 0.1, effect - 2e-4, 0.0125) < 0.8
    more = detectable_effect(1600, 0.1, 0.0125)
    assert more is not None and more < effect
    assert detectable_effect(3, 0.5, 0.05) is None


def test_count_pairs() -> None:
    c = count_pairs([True, True, False, False, True], [True, False, True, False, True])
    assert c == PairedCounts(n=5, both=2, gains=1, losses=1)
    assert (c.champion_rate, c.challenger_rate, c.discordance) == (0.6, 0.6, 0.4)
