"""What experience does to adapters: other turns give others, quarantined rows change nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from macaron.files import write_jsonl
from macaron.mindforge.begin import begin
from macaron.mindforge.collect import collect
from macaron.mindforge.curate import curate
from macaron.mindforge.cycle import Options
from macaron.mindforge.train import train
from macaron.mindforge.validate import validate
from macaron.pair import load_pair
from macaron.settings import load_settings
from tests.project import HOUSE, make_project

pytestmark = pytest.mark.full

# A day that no cycle of this century sees: such rows are imported, and validation sets them aside.
FUTURE = "2199-01-01T00:00:00+00:00"


def sample() -> list[dict[str, Any]]:
    """The shipped sample's whole turns."""
    lines = (HOUSE / "data/inbox/sample.jsonl").read_text().split("\n")
    turns = [json.loads(line) for line in lines if '"turn-' in line]
    assert len(turns) >= 300
    return turns


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Adapter revisions after one training on each of three inboxes; all else is the same."""
    turns = sample()
    corrected = [t for t in turns if "correction" in t and t["specialist"] == "L0"]
    late = [t | {"id": f"late-{n}", "created_at": FUTURE} for n, t in enumerate(corrected[:8])]
    without = [t for t in turns if t not in corrected]
    inboxes = {
        "sample": turns,
        "with rows to quarantine": [*turns, *late, {"messages": "no list"}],
        "without the corrections of L0": without,
    }
    return {
        name: _train(tmp_path_factory.mktemp("learning") / "house", inbox)
        for name, inbox in inboxes.items()
    }


def _train(root: Path, inbox: list[dict[str, Any]]) -> dict[str, str]:
    """Specialist -> revision, by the cycle's own steps from the inbox to the challenger."""
    make_project(root)
    write_jsonl(root / "data/inbox/turns.jsonl", inbox)
    settings = load_settings(root)
    cycle = begin(settings, Options(), run="learning")
    good = validate(cycle, collected := collect(cycle))
    trained = train(cycle, curate(cycle, _table(good)), lambda *_: None)
    bad = sum(t["messages"] == "no list" for t in inbox)
    late = sum(t.get("created_at") == FUTURE for t in inbox)
    assert (collected.facts["quarantined"], good.facts["quarantined"]) == (bad, late)
    return dict(load_pair(settings.pairs / trained.facts["challenger"]).adapters)


def _table(good: Any) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(good.open())


def test_quarantined_rows_change_nothing(adapters: dict[str, dict[str, str]]) -> None:
    assert adapters["with rows to quarantine"] == adapters["sample"]


def test_other_experience_gives_another_adapter(adapters: dict[str, dict[str, str]]) -> None:
    assert adapters["without the corrections of L0"]["L0"] != adapters["sample"]["L0"]


def test_the_others_turns_are_none_of_a_specialists_business(
    adapters: dict[str, dict[str, str]],
) -> None:
    other, same = adapters["without the corrections of L0"], adapters["sample"]
    assert {key for key in same if other[key] == same[key]} == {"L1", "L2", "L3"}
