"""Tasks are drawn by share and weight, and repeat only when their kind is used up."""

import random
from collections import Counter

from macaron.environments.base import Task
from macaron.mindforge.curate import draw


def tasks(kind: str, count: int) -> list[Task]:
    return [
        Task("chat", "L0", kind, "train", ({"role": "user", "content": f"{kind} {n}"},), "", {})
        for n in range(count)
    ]


BANK = tasks("easy", 40) + tasks("hard", 40)


def test_failing_kinds_are_drawn_more() -> None:
    weights = {"chat": {"easy": 0.5, "hard": 1.5}}
    kinds = Counter(t.kind for t in draw(BANK, weights, 4000, random.Random(0)))
    assert 2.6 < kinds["hard"] / kinds["easy"] < 3.4


def test_without_experience_kinds_keep_their_share() -> None:
    kinds = Counter(t.kind for t in draw(BANK, {}, 4000, random.Random(0)))
    assert 0.9 < kinds["hard"] / kinds["easy"] < 1.1


def test_a_task_repeats_only_when_its_kind_is_used_up() -> None:
    drawn = draw(BANK, {"chat": {"easy": 0.0}}, 80, random.Random(0))
    assert Counter(t.id for t in drawn) == {t.id: 2 for t in BANK if t.kind == "hard"}


def test_the_same_seed_draws_the_same_tasks_in_the_same_order() -> None:
    one, two = (draw(BANK, {}, 30, random.Random(7)) for _ in range(2))
    assert [t.id for t in one] == [t.id for t in two]


def test_no_task_no_draw() -> None:
    assert draw([], {}, 10, random.Random(0)) == []
