"""Advantages: per prompt, over valid rewards only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macaron.learner.advantages import group_advantages

REWARDS = st.lists(st.one_of(st.none(), st.floats(0, 1, width=32)), max_size=9)


def test_better_than_the_others_is_positive() -> None:
    assert group_advantages([1.0, 0.0, 0.0, 1.0]) == pytest.approx(
        [0.866, -0.866, -0.866, 0.866], abs=1e-3
    )


@pytest.mark.parametrize("rewards", [[1.0, 1.0], [0.0, 0.0, 0.0], [0.3, None, 0.3]])
def test_equal_rewards_teach_nothing(rewards: list[float | None]) -> None:
    assert group_advantages(rewards) == [None] * len(rewards)


@pytest.mark.parametrize("rewards", [[], [1.0], [None, 1.0, None], [None, None]])
def test_fewer_than_two_valid_rewards_teach_nothing(rewards: list[float | None]) -> None:
    assert group_advantages(rewards) == [None] * len(rewards)


def test_an_invalid_reward_is_not_a_zero() -> None:
    masked = group_advantages([1.0, None, 0.5])
    assert masked[1] is None
    assert [masked[0], masked[2]] == group_advantages([1.0, 0.5])
    assert masked[0] != group_advantages([1.0, 0.0, 0.5])[0]


@given(REWARDS)
def test_valid_advantages_have_mean_zero_and_spread_one(rewards: list[float | None]) -> None:
    found = [a for a in group_advantages(rewards) if a is not None]
    if found:
        assert len(found) == sum(r is not None for r in rewards)
        assert sum(found) == pytest.approx(0, abs=1e-6)
        assert sum(a * a for a in found) == pytest.approx(len(found) - 1, rel=1e-6)
