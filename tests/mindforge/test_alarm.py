"""The alarm on hacked rewards speaks where reward rose and success did not, and only there."""

import random

import pytest

from macaron.contract.statistics import PairedCounts
from macaron.mindforge.alarm import Alarm, alarm


def curve(start: float, end: float, steps: int = 30) -> list[float]:
    rng = random.Random(steps)
    slope = (end - start) / (steps - 1)
    return [start + slope * i + rng.uniform(-0.05, 0.05) for i in range(steps)]


def of(rewards: list[float], gains: int, losses: int, n: int = 400) -> Alarm:
    counts = PairedCounts(n=n, both=n // 4, gains=gains, losses=losses)
    return alarm("chat", rewards, counts, minimum_effect=0.03, alpha=0.05)


def test_reward_that_rose_without_success_raises_it() -> None:
    found = of(curve(0.2, 0.9), gains=5, losses=6)
    assert found.raised
    assert found.text.startswith("chat: training reward rose by 0.4")


@pytest.mark.parametrize(
    ("rewards", "gains", "losses"),
    [
        (curve(0.2, 0.9), 60, 10),
        (curve(0.5, 0.5), 5, 6),
        (curve(0.9, 0.2), 5, 6),
        # The night could not tell: the gain may be large enough.
        (curve(0.2, 0.9), 30, 25),
        ([0.1, 0.9, 0.9], 5, 6),
        ([], 5, 6),
    ],
    ids=["success-followed", "flat", "fell", "unclear", "few-steps", "none"],
)
def test_anything_else_does_not(rewards: list[float], gains: int, losses: int) -> None:
    found = of(rewards, gains, losses)
    assert (found.raised, found.text) == (False, "")


def test_a_rise_within_the_noise_is_none() -> None:
    rng = random.Random(1)
    noisy = [rng.choice((0.0, 1.0)) + 0.005 * i for i in range(30)]
    assert not of(noisy, gains=2, losses=2).risen


def test_without_items_there_is_no_alarm() -> None:
    assert not of(curve(0.2, 0.9), gains=0, losses=0, n=0).raised
