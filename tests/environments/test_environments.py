"""Every shipped environment: its references pass, and its tasks follow from the seed."""

import random

import pytest

from macaron.environments import environment, environments, verify
from macaron.environments.base import Task
from macaron.errors import ConfigError

NAMES = ("chat", "agent", "coding", "genui", "routing", "routing-languages")


def sample(name: str, split: str, n: int, seed: int = 0) -> list[Task]:
    rng = random.Random(f"{name} {seed}")
    return [environment(name).sample(rng, split) for _ in range(n)]  # type: ignore[arg-type]


def test_the_six_are_there() -> None:
    assert tuple(environments()) == NAMES
    assert [e.specialist for e in environments().values()] == ["L0", "L1", "L2", "L3", "L0", "L0"]


@pytest.mark.parametrize("name", NAMES)
def test_every_reference_is_accepted(name: str) -> None:
    tasks = sample(name, "train", 150) + sample(name, "sealed", 150)
    scores = verify(tasks, [task.reference for task in tasks])
    assert [s.reward for s in scores] == [1.0] * 300


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_tasks(name: str) -> None:
    assert sample(name, "train", 50) == sample(name, "train", 50)
    assert len({t.id for t in sample(name, "train", 50, seed=1)}) > 40


@pytest.mark.parametrize("name", NAMES)
def test_a_task_survives_json(name: str) -> None:
    task = sample(name, "sealed", 1)[0]
    again = Task.from_json(task.to_json())
    assert (again, again.id) == (task, task.id)


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_can_be_asked_for(name: str) -> None:
    rng = random.Random(0)
    made = environment(name)
    for kind in made.kinds:
        assert made.sample(rng, "train", kind).kind == kind
        assert made.sample(rng, "sealed", kind).kind == kind
    with pytest.raises(ConfigError, match="no kind 'easy'"):
        made.sample(rng, "train", "easy")


def test_mixed_tasks_are_scored_in_their_order() -> None:
    tasks = [task for name in NAMES for task in sample(name, "train", 2)]
    random.Random(0).shuffle(tasks)
    answers = [task.reference if i % 2 else "" for i, task in enumerate(tasks)]
    assert [s.reward for s in verify(tasks, answers)] == [float(i % 2) for i in range(len(tasks))]


def test_an_unknown_environment_is_one_line() -> None:
    with pytest.raises(ConfigError, match="no environment 'chess'"):
        environment("chess")


def test_layout_is_free_and_code_may_be_fenced() -> None:
    rng = random.Random(5)
    for name, change in (
        ("genui", lambda text: text.replace("><", ">\n  <")),
        ("coding", lambda text: f"```python\n{text}\n```"),
        ("coding", lambda text: "\n".join(f"    {line}" for line in text.split("\n"))),
        ("agent", lambda text: f"```python\n{text}\n```"),
    ):
        task = environment(name).sample(rng, "train")
        assert verify([task], [change(task.reference)])[0].reward == 1.0, (name, task.reference)
