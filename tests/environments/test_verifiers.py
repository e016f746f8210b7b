"""Tasksets made for `verifiers` 0.4, run in that package's own Python where it is installed."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from macaron.environments import environment
from macaron.environments.verifiers_loader import VerifiersTasks, verifiers_python, weighted
from macaron.errors import ConfigError
from macaron.harness.tools import ToolBox

TASKSETS = Path(__file__).parent / "verifiers_tasks"


def _python() -> Path | None:
    try:
        return verifiers_python()
    except ConfigError:
        return None


_missing = pytest.mark.skipif(
    _python() is None, reason="verifiers is not installed: run make verifiers"
)


def installed(test: Any) -> Any:
    """Importing the package takes ten seconds, so these are of the full tier."""
    return pytest.mark.full(_missing(test))


@pytest.fixture(scope="module")
def parcels() -> Iterator[VerifiersTasks]:
    """The taskset in a worker."""
    python = _python()
    assert python is not None
    made = VerifiersTasks("parcels", python, [TASKSETS])
    yield made
    made.close()


@installed
def test_tasks_tools_and_rewards_are_ours(parcels: VerifiersTasks) -> None:
    tasks = parcels.tasks()
    assert [task.reference for task in tasks] == ["blue", "grey", "pink", "white", "black"]
    world = parcels.world(tasks[1])
    box = ToolBox(world.tools())
    (spec,) = box.specs()
    assert spec["function"]["name"] == "desk_open_shelf"
    assert spec["function"]["description"] == "Open a shelf and see the colour inside."
    assert box.call("desk_open_shelf", '{"wood": "birch"}') == "grey"
    score = world.score("grey")
    assert (score.reward, score.components) == (1.0, {"colour": 1.0, "opened_once": 1.0})
    assert world.score("blue").reward == 0.25


@installed
def test_rewards_of_bare_answers_see_no_call(parcels: VerifiersTasks) -> None:
    tasks = parcels.tasks()
    scores = parcels.verify(tasks, [task.reference for task in tasks])
    assert {score.reward for score in scores} == {0.75}


@installed
def test_episodes_do_not_share_state(parcels: VerifiersTasks) -> None:
    task = parcels.tasks()[0]
    worlds = [parcels.world(task) for _ in range(3)]
    for world in worlds:
        assert ToolBox(world.tools()).call("desk_open_shelf", '{"wood": "alder"}') == "blue"
    assert [world.score("blue").reward for world in worlds] == [1.0] * 3


@installed
def test_a_tools_refusal_and_a_wrong_call_are_texts_for_the_model(
    parcels: VerifiersTasks,
) -> None:
    world = parcels.world(parcels.tasks()[0])
    box = ToolBox(world.tools())
    assert "there is no shelf of oak" in box.call("desk_open_shelf", '{"wood": "oak"}')
    assert "'wood' is a required property" in box.call("desk_open_shelf", "{}")
    assert world.score("blue").reward == 0.75


@installed
def test_ended_episodes_are_forgotten(parcels: VerifiersTasks) -> None:
    task = parcels.tasks()[0]
    old = parcels.world(task)
    number = old._number
    del old
    gc.collect()
    assert number in parcels._ended
    parcels.world(task)
    assert number not in parcels._ended


@installed
def test_a_worker_that_died_makes_its_episodes_invalid_and_is_replaced(
    parcels: VerifiersTasks,
) -> None:
    task = parcels.tasks()[0]
    before = parcels.world(task)
    process = parcels._bridge._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert parcels.world(task).score("blue").reward == 0.75
    lost = before.score("blue")
    assert lost.reward is None
    assert lost.error


@installed
def test_what_cannot_be_had_is_one_line() -> None:
    python = _python()
    assert python is not None
    with pytest.raises(ConfigError, match=r"^verifiers:boxed: it needs a container$"):
        VerifiersTasks("boxed", python, [TASKSETS])
    with pytest.raises(ConfigError, match=r"^verifiers:missing-one: ModuleNotFoundError"):
        VerifiersTasks("missing-one", python, [TASKSETS])


def test_without_the_package_the_way_to_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "macaron.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"verifiers is not installed \(python3 -m venv"):
        environment("verifiers:parcels")


def test_rewards_become_one_number_in_range() -> None:
    assert weighted({"a": [1.0, 3.0], "b": [0.0, 1.0]}).reward == 0.75
    assert weighted({"a": [0.5, 2.0]}).reward == 0.5
    assert weighted({"a": [1.0, 1.0], "late": [0.5, -1.0]}).reward == 0.5
    assert weighted({"a": [0.0, 1.0], "late": [1.0, -1.0]}).reward == 0.0
    for broken in ({"a": None}, {"a": [1.5, 1.0]}, {"a": [float("nan"), 1.0]}, {"a": [1.0, 0.0]}):
        score = weighted(broken)
        assert score.reward is None
        assert score.error
