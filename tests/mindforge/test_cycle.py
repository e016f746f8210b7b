"""A cycle's record: equal inputs resume, seeds do not wander, only one cycle runs."""

import multiprocessing
from pathlib import Path

import pytest

from macaron.errors import BusyError
from macaron.mindforge.cycle import Inputs, cycles, exclusive, open_cycle, seed_of
from macaron.profile import load_profile
from macaron.settings import Settings, load_settings
from tests.project import HOUSE


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "macaron.toml").write_text("")
    return load_settings(tmp_path)


def inputs(**changes: object) -> Inputs:
    values = {
        "base": "models/nano",
        "base_digest": "b" * 64,
        "model_name": "macaron",
        "profile": load_profile(HOUSE / "models/profiles/nano.toml"),
        "contract": "contracts/v1.toml",
        "contract_digest": "c" * 64,
        "hcp_digest": "d" * 64,
        "champion": "e" * 16,
        "attempt": 0,
        "seed": 0,
        "imports": {},
        "code": {"commit": "0" * 40},
    }
    return Inputs.model_validate(values | changes)


def test_an_unfinished_cycle_with_equal_inputs_is_resumed(settings: Settings) -> None:
    first = open_cycle(settings, inputs(), run="a")
    again = open_cycle(settings, inputs(), run="b")
    assert again == first
    assert [record["run"] for record in cycles(settings)] == ["b"]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"champion": "f" * 16},
        {"imports": {"new.jsonl": "0" * 64}},
        {"code": {"commit": "1" * 40}},
    ],
)
def test_other_inputs_begin_a_new_cycle(settings: Settings, change: dict[str, object]) -> None:
    first = open_cycle(settings, inputs(), run="a")
    assert open_cycle(settings, inputs(**change), run="a").id != first.id


@pytest.mark.parametrize("state", ["promoted", "rejected"])
def test_a_judged_cycle_is_never_resumed(settings: Settings, state: str) -> None:
    first = open_cycle(settings, inputs(), run="a")
    first.update(state=state)
    assert open_cycle(settings, inputs(), run="a").id != first.id


def test_a_cycle_killed_after_its_promotion_is_resumed(settings: Settings) -> None:
    first = open_cycle(settings, inputs(), run="a")
    first.update(challenger="f" * 16)
    later = inputs(champion="f" * 16, attempt=3, hcp_digest="9" * 64)
    assert open_cycle(settings, later, run="b").id == first.id
    other = inputs(champion="f" * 16, imports={"new.jsonl": "0" * 64})
    assert open_cycle(settings, other, run="c").id != first.id
    first.update(state="promoted")
    assert open_cycle(settings, later, run="d").id != first.id


def test_fresh_leaves_the_unfinished_cycle_alone(settings: Settings) -> None:
    first = open_cycle(settings, inputs(), run="a")
    assert open_cycle(settings, inputs(), run="a", fresh=True).id != first.id


def test_seeds_depend_on_champion_attempt_and_purpose_only(settings: Settings) -> None:
    one = open_cycle(settings, inputs(), run="a")
    two = open_cycle(settings, inputs(imports={"x": "1" * 64}), run="a")
    three = open_cycle(settings, inputs(attempt=1), run="a")
    assert one.seed("train") == two.seed("train")
    assert len({one.seed("train"), one.seed("collect"), three.seed("train")}) == 3


def test_seeds_are_the_same_on_every_machine() -> None:
    assert seed_of("a", 1) == seed_of("a", 1) < 2**63
    assert seed_of("a", 1) == 1055093878191994707


def _hold(settings: Settings, held: object, release: object) -> None:
    with exclusive(settings):
        held.set()  # type: ignore[attr-defined]
        release.wait()  # type: ignore[attr-defined]


def test_two_cycles_at_once_are_refused_and_a_killed_one_frees_the_lock(settings: Settings) -> None:
    spawn = multiprocessing.get_context("spawn")
    held, release = spawn.Event(), spawn.Event()
    holder = spawn.Process(target=_hold, args=(settings, held, release))
    holder.start()
    assert held.wait(30)
    with pytest.raises(BusyError, match=str(holder.pid)), exclusive(settings):
        pass
    holder.kill()
    holder.join()
    with exclusive(settings):
        pass
