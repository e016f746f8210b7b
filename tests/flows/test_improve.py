"""Whole small cycles on the shipped nano base, every part real."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from macaron.mindforge.cycle import Cycle
from macaron.mindforge.stores import lineage, pair_store, tracking
from macaron.settings import load_settings
from tests.project import HOUSE, champion, last_cycle, macaron, make_project

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("_server")]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> dict[str, Any]:
    """A project after one cycle with the shipped sample of turns."""
    import os

    os.environ["PREFECT_API_URL"] = prefect_server
    root = make_project(tmp_path_factory.mktemp("night") / "house", inbox=True, steps=4)
    done = macaron(root, "improve")
    assert done.returncode in (0, 3), done.stderr
    return {"root": root, "done": done, "record": last_cycle(root)}


def test_the_exit_code_says_the_verdict(night: dict[str, Any]) -> None:
    expected = {"promoted": 0, "rejected": 3}[night["record"]["state"]]
    assert night["done"].returncode == expected


def test_the_terminal_has_a_line_a_step_a_table_and_where_to_look(night: dict[str, Any]) -> None:
    said = night["done"].stderr
    for step in ("begin", "collect", "validate", "train", "evaluate", "judge", "version"):
        assert f"✓ {step}" in said
    for suite in ("chat", "agent", "coding", "genui", "routing"):
        assert any(line.startswith(suite) for line in said.splitlines())
    assert "report.md" in said
    assert "Traceback" not in said
    assert "WARNING" not in said


def test_the_pair_is_in_every_register(night: dict[str, Any]) -> None:
    settings = load_settings(night["root"])
    challenger = night["record"]["challenger"]
    pair = pair_store(settings).get(challenger)
    assert pair.parent == night["record"]["champion"]
    assert pair.generation == 1
    kept = lineage(settings).find(challenger)
    assert kept is not None
    versions = {v.pair_id: v for v in tracking(settings, settings.model_name).versions()}
    assert versions[challenger].tags["git_tag"] == kept.tag
    assert versions[challenger].tags["dvc_md5"] == kept.dvc_md5
    verdict = json.loads((settings.pairs / challenger / "verdict.json").read_text())
    assert versions[challenger].tags["contract"] == verdict["contract_digest"]


def test_only_a_promotion_changes_the_champion(night: dict[str, Any]) -> None:
    record = night["record"]
    expected = record["challenger"] if record["state"] == "promoted" else record["champion"]
    assert champion(night["root"]) == expected


def test_the_sample_was_learned_from_and_its_broken_lines_were_not(night: dict[str, Any]) -> None:
    cycle = Cycle.model_validate(night["record"]["cycle"])
    selection = json.loads((cycle.dir / "training" / "selection.json").read_text())
    assert selection["by_origin"]["correction"] > 0
    report = (cycle.dir / "report.md").read_text()
    broken = sum(1 for line in _inbox() if not _is_json_object(line))
    assert broken > 0
    assert "| lines that the import quarantined | 20 |" in report


def _inbox() -> list[str]:
    return (HOUSE / "data/inbox/sample.jsonl").read_text().splitlines()


def _is_json_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def test_the_shipped_sample_has_what_a_first_run_needs() -> None:
    turns = [json.loads(line) for line in _inbox() if _is_json_object(line)]
    turns = [turn for turn in turns if "id" in turn]
    assert len(turns) >= 300
    assert sum("correction" in turn for turn in turns) >= 50
    assert {turn["specialist"] for turn in turns} == {"L0", "L1", "L2", "L3"}
    assert all(turn["task"]["split"] == "train" for turn in turns)


def test_every_specialist_moved(night: dict[str, Any]) -> None:
    settings = load_settings(night["root"])
    before = pair_store(settings).get(night["record"]["champion"])
    after = pair_store(settings).get(night["record"]["challenger"])
    assert all(after.adapters[key] != before.adapters[key] for key in before.adapters)


def test_the_tracking_server_has_the_curves_and_the_verdict(night: dict[str, Any]) -> None:
    settings = load_settings(night["root"])
    registry = tracking(settings, settings.model_name)
    run = registry.cycle_run(night["record"]["id"], {}, {})
    metrics = registry.client.get_run(run).data.metrics
    assert {"suite/chat/difference", "suite/routing/low"} <= metrics.keys()
    child = registry.specialist_run(run, "L1")
    assert len(registry.client.get_metric_history(child, "reward")) == 4
    registry.finish(child)
    registry.finish(run)


def test_the_persons_checkout_is_as_it_was(night: dict[str, Any]) -> None:
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=night["root"], capture_output=True, text=True
    )
    assert status.stdout == ""


def test_a_second_night_starts_from_the_champion_with_seeds_of_its_own(
    night: dict[str, Any], tmp_path: Path
) -> None:
    root = shutil.copytree(night["root"], tmp_path / "second", symlinks=True)
    shutil.rmtree(root / "workspace")
    subprocess.run(["git", "worktree", "prune"], cwd=root, check=True)
    done = macaron(root, "improve")
    assert done.returncode in (0, 3), done.stderr
    first, second = night["record"], last_cycle(root)
    assert second["champion"] == champion(night["root"])
    assert second["challenger"] != first["challenger"]
