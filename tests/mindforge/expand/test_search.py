"""Whole searches: what they cover, where they stop, what they are worth on unseen tasks."""

from pathlib import Path

import pytest

from macaron.environments.base import Task
from macaron.hcp.document import HCP
from macaron.mindforge.expand.attempts import Batches, Play, player_of
from macaron.mindforge.expand.candidate import Edit, candidate
from macaron.mindforge.expand.expansion import expand, unseen_tasks
from macaron.mindforge.expand.finals import merge
from macaron.mindforge.expand.result import curve
from macaron.mindforge.expand.search import Found, Search, Setting
from macaron.mindforge.expand.sweeps import Sweep, single_fields, sweep
from macaron.profile import ExpandConfig
from tests.mindforge.expand.parts import CONTRACT, SCOPE, SHIPPED, changed, plays, runtime, tasks

# No reflections: they would ask the model, which these searches do without.
CONFIG = ExpandConfig(attempts=60, batch=8, tries=1, reflections=0)
TASKS = tasks("agent", "count-one", 8)


def setting(hcp: HCP = SHIPPED, seed: int = 3, **config: float) -> Setting:
    return Setting(runtime(hcp), CONTRACT, CONFIG.model_copy(update=config), seed)


def searched(folder: Path, play: Play, **config: float) -> tuple[Found, Batches]:
    batches = Batches(folder, play, 3)
    return Search(setting(**config), TASKS, batches).run(), batches  # type: ignore[arg-type]


def hot(hcp: HCP, task: Task, seed: int) -> bool:
    """Passes one attempt in three where the temperature is near 1."""
    return 0.8 < hcp.specialists["L1"].temperature < 1.1 and seed % 3 == 0


def test_it_covers_what_some_harness_passes(tmp_path: Path) -> None:
    found, batches = searched(tmp_path, plays(hot))
    assert found.stopped == "covered"
    assert set(found.covered) == {task.id for task in TASKS}
    by_id = {one.id: one for one in found.candidates["L1"]}
    winners = {by_id[name].hcp.specialists["L1"].temperature for name in found.covered.values()}
    assert all(0.8 < t < 1.1 for t in winners)
    assert {a.cause for a in found.attributions.values()} == {"harness"}
    rows = curve(found, batches.attempts)
    assert [row["covered"] for row in rows][-1] == sum(row["new"] for row in rows) == len(TASKS)


def test_it_spends_no_more_than_it_has(tmp_path: Path) -> None:
    found, batches = searched(tmp_path, plays(lambda *_: False), attempts=20, min_gain=0.0)
    assert found.stopped == "budget"
    assert batches.spent("widened", "search") == 20
    assert {a.cause for a in found.attributions.values()} == {"model"}


def test_it_stops_where_nothing_is_to_be_expected(tmp_path: Path) -> None:
    never = plays(lambda *_: False)
    found, batches = searched(tmp_path, never, attempts=5000, min_gain=0.15, population=4)
    assert found.stopped == "gain"
    assert batches.spent("widened", "search") < 1000


def test_the_same_seed_goes_the_same_way_and_a_killed_one_on(tmp_path: Path) -> None:
    log = list[int]()
    one, first = searched(tmp_path / "a", plays(hot))
    other, second = searched(tmp_path / "b", plays(hot))
    assert first.attempts == second.attempts
    for file in sorted((tmp_path / "a").iterdir())[2:]:
        file.unlink()
    again, third = searched(tmp_path / "a", plays(hot, log))
    assert third.attempts == first.attempts
    assert (
        sum(log)
        == third.played
        == len(first.attempts) - sum(attempt.batch < 2 for attempt in first.attempts)
    )
    assert one.covered == other.covered == again.covered


def test_edits_of_one_specialist_rerun_nothing_of_another(tmp_path: Path) -> None:
    batches = Batches(tmp_path, plays(lambda *_: False), 3)
    mixed = [*TASKS, *tasks("chat", "quote", 2)]
    found = Search(setting(min_gain=0.0), mixed, batches).run()
    slices = {one.id: key for key, ones in found.candidates.items() for one in ones}
    assert all(slices[attempt.candidate] == attempt.specialist for attempt in batches.attempts)


def test_a_winner_is_accepted_for_its_worth_on_unseen_tasks_only(tmp_path: Path) -> None:
    practice = {"L1": TASKS}
    unseen = unseen_tasks({"L1": ["agent"]}, TASKS, 40, 3)
    seen = {task.id for task in TASKS}
    assert not seen & {task.id for task in unseen["L1"]}

    def overfit(hcp: HCP, task: Task, seed: int) -> bool:
        return hcp.specialists["L1"].temperature > 0 and task.id in seen

    real = plays(lambda hcp, task, seed: hcp.specialists["L1"].temperature > 0)
    good = expand(setting(), practice, unseen, Batches(tmp_path / "good", real, 3))
    assert good.hcp.specialists["L1"].temperature > 0
    assert (good.rows[0].old, good.rows[0].new, good.rows[0].accepted) == (0.0, 1.0, True)
    bad = expand(setting(), practice, unseen, Batches(tmp_path / "bad", plays(overfit), 3))
    assert bad.hcp == SHIPPED
    assert [row.accepted for row in bad.rows] == [False]


def test_what_loses_more_than_it_covers_does_not_win(tmp_path: Path) -> None:
    failing = TASKS[:2]

    def costly(hcp: HCP, task: Task, seed: int) -> bool:
        return (hcp.specialists["L1"].temperature > 0) == (task in failing)

    unseen = {"L1": tasks("agent", "total-one", 30)}
    done = expand(setting(), {"L1": TASKS}, unseen, Batches(tmp_path, plays(costly), 3))
    assert (done.failures, len(done.found.covered)) == (2, 2)
    assert (done.rows, done.hcp) == ([], SHIPPED)


def test_a_winner_that_reaches_into_anothers_slice_is_left_out() -> None:
    first = candidate(SHIPPED, "L1", [Edit("specialists.L1.temperature", 1.0)], SCOPE, "test")
    wide = candidate(SHIPPED, "L2", [Edit("specialists.L1.temperature", 0.5)], SCOPE, "test")
    hcp, kept = merge(SHIPPED, [first, wide])
    assert kept == [first]
    assert hcp.specialists["L1"].temperature == 1.0


def test_a_sweep_spends_its_attempts_on_what_is_open(tmp_path: Path) -> None:
    log = list[int]()
    batches = Batches(tmp_path, plays(hot, log), 3)
    one = Sweep("hot", changed(L1__temperature=1.0))
    covered = sweep(one, TASKS, 60, batches)
    assert covered == {attempt.task for attempt in batches.attempts if attempt.passed}
    assert log[0] == len(TASKS) and log == sorted(log, reverse=True)
    few = sweep(one, TASKS, 5, Batches(tmp_path / "few", plays(hot), 3))
    assert len(few) <= 5
    greedy = list[int]()
    sweep(Sweep("as it is", SHIPPED), TASKS, 60, Batches(tmp_path / "g", plays(hot, greedy), 3))
    assert greedy == [len(TASKS)]
    assert len({one.hcp.digest for one in single_fields(changed(L1__stop=["x"]))}) >= 6


@pytest.mark.full
def test_the_real_base_is_freed_of_a_limit_that_cuts_it(tmp_path: Path) -> None:
    worn = changed(L1__max_tokens=12)
    made = setting(worn, attempts=48)
    batches = Batches(tmp_path, player_of(made.runtime, 64), 3)
    found = Search(made, TASKS, batches).run()
    assert {a.how for a in found.attributions.values()} == {("cut",)}
    assert len(found.covered) >= 6
    by_id = {one.id: one for one in found.candidates["L1"]}
    assert {by_id[c].hcp.specialists["L1"].max_tokens > 12 for c in found.covered.values()} == {
        True
    }
