"""Runs, versions and aliases in a real MLflow store."""

import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from macaron.errors import RegistryError
from macaron.registry.tracking import OWNER, Tracking
from tests.registry.conftest import open_tracking
from tests.registry.parts import ROOT, make_verdict

pytestmark = pytest.mark.full


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    folder = tmp_path / "pairs" / "aaaa"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return folder


def register(tracking: Tracking, pair: Path, pair_id: str, verdict: str = "promoted") -> int:
    run = tracking.cycle_run(f"cycle-{pair_id}", {}, {})
    return tracking.register(pair, run, {"pair_id": pair_id, "verdict": verdict})


def test_a_cycle_has_one_run_however_often_it_is_resumed(
    tracking: Tracking, tmp_path: Path
) -> None:
    run = tracking.cycle_run("night-1", {"profile": "nano", "seed": 7}, {"code": "abc"})
    tracking.finish(run, failed=True)
    again = open_tracking(tmp_path)
    assert again.cycle_run("night-1", {"profile": "nano", "seed": 7}, {"code": "abc"}) == run
    found = again.client.get_run(run)
    assert found.info.status == "RUNNING" and found.data.params == {"profile": "nano", "seed": "7"}
    assert again.cycle_run("night-2", {}, {}) != run
    with pytest.raises(RegistryError, match="MLflow: "):
        again.cycle_run("night-1", {"profile": "small"}, {})


def test_children_hang_on_the_cycle(tracking: Tracking) -> None:
    run = tracking.cycle_run("night-1", {}, {})
    children = [tracking.specialist_run(run, name, {"lr": 0.01}) for name in ("L0", "L1")]
    assert tracking.specialist_run(run, "L0", {"lr": 0.01}) == children[0] != children[1]
    tags = tracking.client.get_run(children[0]).data.tags
    assert tags["mlflow.parentRunId"] == run


def test_parallel_children_are_not_doubled(tracking: Tracking) -> None:
    run = tracking.cycle_run("night-1", {}, {})
    with ThreadPoolExecutor(4) as pool:
        ids = set(pool.map(lambda _: tracking.specialist_run(run, "L0"), range(8)))
    assert len(ids) == 1


def test_steps_are_logged_once(tracking: Tracking, tmp_path: Path) -> None:
    run = tracking.cycle_run("night-1", {}, {})
    rows = [{"step": i, "reward": i / 10, "kept": True, "kind": "text"} for i in range(6)]
    tracking.log_steps(run, rows[:4])
    tracking.log_steps(run, [{"step": 3, "loss": 1.0}])
    resumed = open_tracking(tmp_path)
    resumed.log_steps(run, rows[2:])
    history = resumed.client.get_metric_history(run, "reward")
    assert [(m.step, m.value) for m in history] == [(i, i / 10) for i in range(6)]
    assert len(resumed.client.get_metric_history(run, "loss")) == 1
    assert "kind" not in resumed.client.get_run(run).data.metrics


def test_a_number_that_is_not_finite_is_shown_not_hidden(tracking: Tracking) -> None:
    """A NaN step hidden by log filtering goes unseen (trl#6702)."""
    run = tracking.cycle_run("night-1", {}, {})
    tracking.log_steps(run, [{"step": 1, "loss": math.nan}])
    (point,) = tracking.client.get_metric_history(run, "loss")
    assert math.isnan(point.value)


def test_the_contracts_numbers_are_on_the_cycles_run(tracking: Tracking) -> None:
    run = tracking.cycle_run("night-1", {}, {})
    verdict = make_verdict(True)
    tracking.log_verdict(run, verdict)
    tracking.log_verdict(run, verdict)
    data = tracking.client.get_run(run).data
    assert data.metrics["suite/chat/champion"] == 0.5
    assert data.metrics["suite/chat/challenger"] == 0.8
    assert data.metrics["suite/chat/low"] == verdict.rows[0].low
    assert {k.split("/")[2] for k in data.metrics if k.startswith("suite/routing/")} == {
        *("champion", "challenger", "difference", "low", "high", "p", "n")
    }
    assert data.tags["verdict"] == "promoted"
    assert data.tags["contract"] == verdict.contract_digest
    assert verdict.rows[0].text in data.tags["mlflow.note.content"]
    assert len(tracking.client.get_metric_history(run, "suite/chat/p")) == 1


def test_files_keep_their_names(tracking: Tracking, pair: Path) -> None:
    run = tracking.cycle_run("night-1", {}, {})
    report = pair.parent / "report.md"
    report.write_text("# report")
    tracking.log_files(run, [report, pair])
    tracking.log_files(run, [report], "plots")
    names = {item.path for item in tracking.client.list_artifacts(run)}
    assert names == {"report.md", "aaaa", "plots"}
    assert str(tracking.artifacts) in tracking.client.get_run(run).info.artifact_uri


def test_runs_of_dead_processes_are_closed(tracking: Tracking, tmp_path: Path) -> None:
    script = f"""
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.registry.conftest import open_tracking
tracking = open_tracking(Path({str(tmp_path)!r}))
run = tracking.cycle_run("dead", {{}}, {{}})
tracking.specialist_run(run, "L0")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    mine = tracking.cycle_run("alive", {}, {})
    other_machine = tracking.cycle_run("elsewhere", {}, {})
    tracking.tag(other_machine, {OWNER: "another-host:1:abc"})
    # The same process number as ours, as after a container's restart.
    recycled = tracking.cycle_run("recycled", {}, {})
    owner = tracking.client.get_run(recycled).data.tags[OWNER].rsplit(":", 1)[0]
    assert owner.endswith(str(os.getpid()))
    tracking.tag(recycled, {OWNER: f"{owner}:earlier"})
    assert tracking.close_stale_runs() == 3
    assert tracking.close_stale_runs() == 0
    running = {r.info.run_id for r in tracking._search("attributes.status = 'RUNNING'")}
    assert running == {mine, other_machine}


def test_two_processes_prepare_at_once_in_silence(tmp_path: Path) -> None:
    """Creating the database twice at once kills one of the two; MLflow logs its migrations."""
    script = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.registry.conftest import open_tracking
folder = Path({str(tmp_path)!r})
tracking = open_tracking(folder)
tracking.prepare()
run = tracking.cycle_run(sys.argv[1], {{}}, {{}})
(folder / sys.argv[1]).mkdir()
(folder / sys.argv[1] / "file").write_text("x")
tracking.register(folder / sys.argv[1], run, {{"pair_id": sys.argv[1]}})
"""
    loud = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", script, name],
            env=loud,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("one", "two")
    ]
    assert [process.communicate(timeout=600)[0] for process in both] == ["", ""]
    assert [process.returncode for process in both] == [0, 0]
    tracking = open_tracking(tmp_path)
    assert len(tracking.client.search_experiments(filter_string="name = 'macaron'")) == 1
    assert {version.pair_id for version in tracking.versions()} == {"one", "two"}


def test_a_pair_is_registered_once(tracking: Tracking, pair: Path) -> None:
    """Parallel steps make duplicate versions (zenml#3252, mlflow#25966)."""
    run = tracking.cycle_run("night-1", {}, {})
    with ThreadPoolExecutor(4) as pool:
        versions = set(
            pool.map(lambda _: tracking.register(pair, run, {"pair_id": "aaaa"}), range(6))
        )
    assert versions == {1}
    assert tracking.register(pair, run, {"pair_id": "aaaa", "git_tag": "pair/aaaa"}) == 1
    (version,) = tracking.versions()
    assert version.tags["git_tag"] == "pair/aaaa" and version.aliases == ("challenger",)
    assert version.run_id == run and version.pair_id == "aaaa"
    assert tracking.register(pair, run, {"pair_id": "bbbb"}) == 2


def test_the_registry_page_begins_with_the_verdict(tracking: Tracking, pair: Path) -> None:
    run = tracking.cycle_run("night-1", {}, {})
    tags = {"pair_id": "aaaa", "parent": "", "dvc_md5": "0.dir", "generation": "0"}
    tracking.register(pair, run, {**tags, "verdict": "ancestor"})
    (version,) = tracking.versions()
    assert list(version.tags) == ["verdict", "generation", "pair_id", "dvc_md5"]
    described = tracking.client.get_model_version("macaron", "1").description
    assert described == "ancestor, generation 0: pair aaaa"
    tracking.register(pair, run, {"pair_id": "bbbb", "parent": "aaaa"})
    described = tracking.client.get_model_version("macaron", "2").description
    assert described == "unjudged, generation ?: pair bbbb, from aaaa"


def test_promotion_moves_the_alias_last(tracking: Tracking, pair: Path) -> None:
    assert tracking.champion() is None and tracking.versions() == []
    first, second = register(tracking, pair, "aaaa"), register(tracking, pair, "bbbb")
    assert tracking.champion() is None
    tracking.promote(first)
    champion = tracking.promote(second)
    assert tracking.champion() == champion
    assert (champion.version, champion.pair_id) == (2, "bbbb")
    assert tracking._aliases() == {"champion": 2, "previous": 1}
    assert tracking.promote(second) == champion
    assert tracking._aliases() == {"champion": 2, "previous": 1}


def test_a_kill_before_the_alias_changes_nothing(
    tracking: Tracking, pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = register(tracking, pair, "aaaa"), register(tracking, pair, "bbbb")
    tracking.promote(first)
    point = Tracking._point

    def dying(self: Tracking, alias: str, version: int) -> None:
        if alias == "champion":
            raise KeyboardInterrupt
        point(self, alias, version)

    monkeypatch.setattr(Tracking, "_point", dying)
    with pytest.raises(KeyboardInterrupt):
        tracking.promote(second)
    champion = tracking.champion()
    assert champion is not None and champion.pair_id == "aaaa"
    monkeypatch.undo()
    tracking.promote(second)
    assert tracking._aliases() == {"champion": 2, "previous": 1}


def test_a_rejected_pair_is_kept_and_never_champion(tracking: Tracking, pair: Path) -> None:
    first = register(tracking, pair, "aaaa")
    tracking.promote(first)
    rejected = register(tracking, pair, "bbbb", "rejected")
    with pytest.raises(RegistryError, match="version 2 was rejected"):
        tracking.promote(rejected)
    with pytest.raises(RegistryError, match="pair bbbb was rejected"):
        tracking.rollback("bbbb")
    assert [v.tags["verdict"] for v in tracking.versions()] == ["promoted", "rejected"]
    champion = tracking.champion()
    assert champion is not None and champion.pair_id == "aaaa"


def test_rollback_goes_back_step_by_step_and_says_why(tracking: Tracking, pair: Path) -> None:
    with pytest.raises(RegistryError, match="there is no champion"):
        tracking.rollback()
    for pair_id in ("aaaa", "bbbb", "cccc"):
        tracking.promote(register(tracking, pair, pair_id))
    back = tracking.rollback(who="ada", why="it swears")
    assert back.pair_id == "bbbb" and tracking.champion() == back
    left = tracking.versions()[2]
    assert left.tags["rolled_back"].endswith("Z by ada: it swears")
    assert left.tags["rolled_back_to"] == "bbbb"
    assert tracking._aliases() == {"champion": 2, "previous": 1}
    assert tracking.rollback().pair_id == "aaaa"
    with pytest.raises(RegistryError, match="no champion before this"):
        tracking.rollback()
    with pytest.raises(RegistryError, match="pair zzzz was never registered"):
        tracking.rollback("zzzz")
    assert tracking.rollback("cccc").pair_id == "cccc"


def test_a_server_that_is_away_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    away = Tracking("http://127.0.0.1:9", "macaron", tmp_path / "artifacts")
    with pytest.raises(RegistryError) as error:
        away.prepare()
    assert "\n" not in str(error.value) and "127.0.0.1:9" in str(error.value)


def test_file_stores_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="MLflow: "):
        Tracking(f"file://{tmp_path}/mlruns", "macaron", tmp_path / "artifacts").prepare()
