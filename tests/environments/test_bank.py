"""The problem bank: what is written, what is refused, and the shipped file."""

import json
from pathlib import Path

import pytest

from macaron.environments import environments
from macaron.environments.bank import bank, load_bank, save_bank, sealed
from macaron.errors import ConfigError, DigestError

SHIPPED = Path(__file__).parents[2] / "data/bank.jsonl"


def test_a_bank_comes_back_as_it_was_written(tmp_path: Path) -> None:
    tasks = bank(per_environment=20, seed=3)
    path = save_bank(tasks, tmp_path / "bank.jsonl")
    assert load_bank(path) == tasks
    assert save_bank(bank(20, 3), tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


def test_a_bank_has_every_kind_and_no_prompt_twice() -> None:
    tasks = bank(per_environment=20, seed=3)
    # Of turns in other languages there are fewer than kinds in a bank as small as this.
    kinds = {(t.environment, t.kind) for t in tasks if t.environment != "routing-languages"}
    found = environments().items()
    assert kinds == {(n, k) for n, e in found for k in e.kinds if n != "routing-languages"}
    assert {t.split for t in tasks} == {"train"}
    assert len({(t.environment, str(t.messages)) for t in tasks}) == len(tasks) == 20 * 4 + 80 + 4


def test_the_shipped_bank_can_be_made_again() -> None:
    tasks = load_bank(SHIPPED)
    assert SHIPPED.stat().st_size < 5_000_000
    made = bank(per_environment=1000, seed=1)
    assert [t.id for t in tasks] == [t.id for t in made]


def test_sealed_items_follow_from_the_seed() -> None:
    items = sealed("genui", 50, seed=7)
    assert items == sealed("genui", 50, seed=7)
    assert {t.split for t in items} == {"sealed"}
    assert len({str(t.messages) for t in items}) == 50
    assert {t.id for t in items}.isdisjoint({t.id for t in sealed("genui", 50, seed=8)})


def test_too_few_prompts_is_an_error_and_no_endless_loop() -> None:
    class Small:
        name, specialist, kinds = "small", "L0", ("one",)

        def sample(self, rng: object, split: object, kind: object = None) -> object:
            return sealed("chat", 1, seed=0)[0]

    from macaron.environments.bank import _fill

    with pytest.raises(ConfigError, match="small has only 1 distinct prompts, 2 were asked for"):
        _fill(Small(), lambda _: Small().sample(None, None), 2)  # type: ignore[arg-type,return-value]


def broken(tmp_path: Path, line: str) -> Path:
    path = tmp_path / "bank.jsonl"
    good = json.dumps(bank(1, 0)[0].to_json())
    path.write_text(f"{good}\n{line}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", r":2: not a task"),
        ("[]", r":2: not a task"),
        ('{"environment": "chat"}', r":2: a task without 'specialist'"),
        ("", r":2: not a task"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_bank(broken(tmp_path, line))


def test_a_changed_task_is_refused(tmp_path: Path) -> None:
    value = bank(1, 0)[1].to_json() | {"reference": "print(1)"}
    with pytest.raises(DigestError, match="recorded as"):
        load_bank(broken(tmp_path, json.dumps(value)))


def test_a_sealed_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a sealed task in the bank"):
        load_bank(broken(tmp_path, json.dumps(sealed("chat", 1, 0)[0].to_json())))


def test_no_bank_and_an_empty_bank(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such problem bank"):
        load_bank(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ConfigError, match="is empty"):
        load_bank(tmp_path / "empty.jsonl")
