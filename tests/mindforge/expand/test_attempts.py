"""Batches: nothing is played twice, and a record that was touched is an error."""

import json
from pathlib import Path

import pytest

from macaron.errors import DigestError
from macaron.mindforge.expand.attempts import Ask, Batches
from macaron.mindforge.expand.candidate import unchanged
from tests.mindforge.expand.parts import SHIPPED, changed, plays, tasks

TASKS = tasks("chat", "quote", 4)


def asks(number: int = 0, temperature: float = 0.0) -> list[Ask]:
    hcp = changed(L0__temperature=temperature) if temperature else SHIPPED
    return [Ask(unchanged(hcp, "L0").id, hcp, task, number) for task in TASKS]


def batches(folder: Path, log: list[int], seed: int = 7) -> Batches:
    return Batches(folder, plays(lambda hcp, task, seed: seed % 2 == 0, log), seed)


def test_a_search_that_was_killed_reads_what_was_played(tmp_path: Path) -> None:
    first, second = list[int](), list[int]()
    one, other = batches(tmp_path, first), batches(tmp_path, second)
    made = [one.run("search", asks(n)) for n in range(3)]
    assert [other.run("search", asks(n)) for n in range(3)] == made
    assert (first, second) == ([4, 4, 4], [])
    assert other.run("search", asks(3)) and second == [4]


def test_the_same_session_is_taken_from_before_and_costs_nothing(tmp_path: Path) -> None:
    log = list[int]()
    made = batches(tmp_path, log)
    survey = made.run("survey", asks())
    finals = made.run("finals", [*asks(), *asks(temperature=1.0)])
    assert log == [4, 4]
    assert [a.passed for a in finals[:4]] == [a.passed for a in survey]
    assert [a.reused for a in finals] == [True] * 4 + [False] * 4
    assert (made.spent("survey"), made.spent("finals")) == (4, 4)


def test_compared_harnesses_meet_the_same_luck_and_attempts_do_not(tmp_path: Path) -> None:
    seeds = list[int]()

    def seen(hcp: object, task: object, seed: int) -> bool:
        seeds.append(seed)
        return False

    made = Batches(tmp_path, plays(seen), 7)
    for batch in (asks(), asks(temperature=1.0), asks(1)):
        made.run("search", batch)
    assert seeds[:4] == seeds[4:8]
    assert len({*seeds[:4], *seeds[8:]}) == 8


@pytest.mark.parametrize("change", ["rows", "seed", "asked"])
def test_a_batch_that_is_not_what_was_asked_for_is_an_error(tmp_path: Path, change: str) -> None:
    log = list[int]()
    batches(tmp_path, log).run("search", asks())
    if change == "rows":
        [file] = tmp_path.iterdir()
        value = json.loads(file.read_text())
        value["rows"][0]["reward"] = 0.5
        file.write_text(json.dumps(value))
    again = batches(tmp_path, log, seed=8 if change == "seed" else 7)
    with pytest.raises(DigestError, match="remove the folder"):
        again.run("search", asks(1 if change == "asked" else 0))
