"""The cycle's step: a worn harness is mended on the way to the challenger, all of it real."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from macaron.errors import MacaronError
from macaron.files import read_json, write_atomic
from macaron.hcp.document import load_hcp
from macaron.hcp.ledger import Ledger
from macaron.hcp.text import dump_hcp
from macaron.mindforge.begin import begin
from macaron.mindforge.collect import collect
from macaron.mindforge.curate import curate
from macaron.mindforge.cycle import Cycle, Options
from macaron.mindforge.expand.page import section
from macaron.mindforge.expand.step import expand
from macaron.mindforge.train import train
from macaron.mindforge.validate import validate
from macaron.pair import HCP_FILE, load_pair
from macaron.settings import load_settings
from tests.mindforge.expand.parts import changed
from tests.project import edit, make_project

pytestmark = pytest.mark.full

WORN = changed(L1__max_tokens=12)
EXPAND = {"attempts": 48, "practice": 12, "unseen": 24, "tries": 1, "reflections": 1}


def begun(root: Path, **config: int) -> Cycle:
    """A cycle of a project whose champion has the worn harness."""
    make_project(root, inbox=True)
    write_atomic(root / "contracts/hcp/nano.toml", dump_hcp(WORN))
    edit(root / "models/profiles/nano.toml", "expand", **config)
    return begin(load_settings(root), Options(), run="expansion")


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """From the champion to the challenger, by the cycle's own steps."""
    cycle = begun(tmp_path_factory.mktemp("expansion") / "house", **EXPAND)
    good = validate(cycle, collect(cycle))
    expanded = expand(cycle)
    job = curate(cycle, pq.read_table(good.open()), Path(expanded.facts["hcp"]))
    trained = train(cycle, job, lambda *_: None)
    return {"cycle": cycle, "expanded": expanded, "job": job, "trained": trained}


def test_the_challenger_has_the_harness_that_was_found(night: dict[str, Any]) -> None:
    cycle, expanded = night["cycle"], night["expanded"]
    found = load_hcp(Path(expanded.facts["hcp"]))
    assert found.specialists["L1"].max_tokens > 12
    pairs = cycle.settings().pairs
    assert load_hcp(pairs / cycle.inputs.champion / HCP_FILE) == WORN
    challenger = load_pair(pairs / night["trained"].facts["challenger"])
    assert challenger.hcp == found.digest == read_json(Path(night["job"].path))["hcp_digest"]
    [row] = [row for row in expanded.facts["unseen"] if row["specialist"] == "L1"]
    assert row["accepted"] and row["low"] > 0


def test_the_rewrite_is_in_the_record(night: dict[str, Any]) -> None:
    cycle = night["cycle"]
    records = Ledger(cycle.settings().state / "hcp").records()
    assert [record.event for record in records] == ["applied"]
    assert records[0].facts["before"] == WORN.digest
    assert f"cycle {cycle.id}" in records[0].facts["why"]


def test_what_the_champion_said_is_still_learned_from(night: dict[str, Any]) -> None:
    assert night["job"].facts["examples"] > 0


def test_a_step_that_is_run_again_plays_nothing(night: dict[str, Any]) -> None:
    folder = night["cycle"].dir / "expansion"
    before = {path: path.stat().st_mtime_ns for path in (folder / "batches").iterdir()}
    (folder / "expansion.json").unlink()
    again = expand(night["cycle"])
    assert again.digest == night["expanded"].digest
    assert {p: p.stat().st_mtime_ns for p in (folder / "batches").iterdir()} == before


def test_the_report_says_what_was_accepted(night: dict[str, Any]) -> None:
    said = section(read_json(Path(night["expanded"].path)))
    assert "specialists.L1.max_tokens" in said
    assert "harness" in said


def test_without_attempts_it_is_left_out(tmp_path: Path) -> None:
    cycle = begun(tmp_path / "house", attempts=0)
    made = expand(cycle)
    assert made.facts["left_out"]
    assert load_hcp(Path(made.facts["hcp"])).digest == cycle.inputs.hcp_digest
    assert "Left out" in section(read_json(Path(made.path)))


def test_a_search_that_fails_is_one_line(tmp_path: Path) -> None:
    cycle = begun(tmp_path / "house", **EXPAND)
    broken = cycle.model_copy(
        update={"inputs": cycle.inputs.model_copy(update={"base": str(tmp_path)})}
    )
    with pytest.raises(MacaronError, match="the expansion failed"):
        expand(broken)
