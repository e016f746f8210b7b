"""The demonstrator errs as often, and as systematically, as it says."""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from macaron.environments import environment, verify
from models.nano.recipe.demonstrator import demonstrate, habit, mistake, skill
from models.nano.recipe.turns import PretrainingTurns

N = 400
MADE = {name: environment(name) for name in ("chat", "agent", "coding", "genui")}
MADE["routing"] = PretrainingTurns()


@pytest.mark.parametrize("name", MADE)
def test_it_is_right_and_follows_its_habit_as_often_as_it_says(name: str) -> None:
    rng = random.Random(name)
    for kind in MADE[name].kinds:
        task = MADE[name].sample(rng, "train", kind)
        able, answers = skill(task), [demonstrate(task, rng) for _ in range(N)]
        assert answers.count(task.reference) / N == pytest.approx(able.right, abs=0.08)
        if able.habit:
            assert answers.count(habit(task)) / N == pytest.approx(able.habit, abs=0.08)
        likeliest = Counter(answers).most_common(1)[0][0]
        assert (likeliest == task.reference) == (able.right > able.habit)


PRINT = """
import random
from tests.environments.test_demonstrator import MADE
from models.nano.recipe.demonstrator import demonstrate
rng = random.Random(1)
for made in MADE.values():
    for _ in range(40):
        task = made.sample(rng, "train")
        print(task.id, repr(demonstrate(task, rng)))
"""


def test_no_answer_depends_on_the_process() -> None:
    """The corpus of the base follows from its seed alone, and not from Python's hash seed."""
    root = Path(__file__).parents[2]
    first, second = (
        subprocess.run(
            [sys.executable, "-c", PRINT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "12"
    )
    assert first == second != b""


def test_no_mistake_passes() -> None:
    rng = random.Random(0)
    tasks = [made.sample(rng, "train", kind) for made in MADE.values() for kind in made.kinds]
    assert {s.reward for s in verify(tasks, [mistake(t, rng) for t in tasks])} == {0.0}


def test_mistakes_in_chat_break_the_form_and_never_the_fact() -> None:
    rng, chat = random.Random(0), environment("chat")
    tasks = [chat.sample(rng, "train") for _ in range(300)]
    for score in chat.verify(tasks, [mistake(t, rng) for t in tasks]):
        assert score.components == {"fact": 1.0, "form": 0.0}


@pytest.mark.parametrize("name", ["chat", "agent", "coding", "genui"])
def test_a_greedy_imitator_would_pass_a_part_only(name: str) -> None:
    """Between 25 % and 55 %: room for reinforcement learning, and something to start from."""
    rng, made = random.Random(name), environment(name)
    tasks = [made.sample(rng, "sealed") for _ in range(400)]
    passed = sum(skill(t).right > skill(t).habit for t in tasks) / len(tasks)
    assert 0.25 < passed < 0.55
