"""What a step uses follows from its number."""

import pytest

from macaron.learner.schedule import learning_rate, share, step_examples, step_prompts
from tests.learner.conftest import config


def test_warm_up_then_linear_to_the_final_share() -> None:
    settings = config(steps=7, warmup=2, lr=1.0, final_lr=0.2)
    rates = [learning_rate(settings, step) for step in range(7)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2])


def test_warm_up_longer_than_the_run() -> None:
    settings = config(steps=2, warmup=4, lr=1.0)
    assert [learning_rate(settings, s) for s in range(2)] == pytest.approx([0.25, 0.5])


def test_prompts_come_in_order_and_start_again() -> None:
    settings = config(prompts=3)
    assert [step_prompts(settings, 5, step) for step in range(3)] == [
        [0, 1, 2],
        [3, 4, 0],
        [1, 2, 3],
    ]


def test_every_example_comes_once_a_pass_in_another_order() -> None:
    items = list(range(6))
    steps = [step_examples(items, 4, 1, step) for step in range(6)]
    flat = [item for step in steps for item in step]
    passes = [flat[i : i + 6] for i in range(0, 24, 6)]
    assert all(sorted(p) == items for p in passes)
    assert len({tuple(p) for p in passes}) > 1
    assert steps[3] == step_examples(items, 4, 1, 3)
    assert steps != [step_examples(items, 4, 2, step) for step in range(6)]
    assert step_examples([], 4, 1, 0) == step_examples(items, 0, 1, 0) == []


@pytest.mark.parametrize(("count", "size"), [(16, 1), (16, 2), (5, 3), (1, 4), (0, 2)])
def test_ranks_share_all_and_nothing_twice(count: int, size: int) -> None:
    parts = [i for rank in range(size) for i in share(count, rank, size)]
    assert parts == list(range(count))
