"""`macaron pool` and the tools in `macaron pairs show`, over a real pair and a real live pool."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from macaron.harness.pool.judge import Uses, promote, record_uses
from macaron.harness.pool.live import LivePool
from macaron.harness.sandbox import Sandbox
from macaron.mindforge.stores import live_pool
from macaron.pair import Pair
from macaron.registry.pairs import PairStore
from macaron.settings import load_settings
from tests.cli.conftest import Command
from tests.harness.pools import TOTAL, WRONG, Rules, examiner, session, tool
from tests.registry.parts import make_pair, make_tools


@pytest.fixture
def pair(root: Path, tmp_path: Path) -> Pair:
    """A pair that carries one tool and a demoted one."""
    tools = make_tools(tmp_path / "tools", "add", demoted=("sort",))
    return make_pair(PairStore(root / "models" / "pairs"), tmp_path, 0.0, tools=tools)


@pytest.fixture
def pool(root: Path, pair: Pair) -> Iterator[LivePool]:
    """Its live pool, in which a session saved two more and one passed."""
    made = live_pool(load_settings(root), pair.id)
    with Sandbox() as sandbox:
        for source in (WRONG, TOTAL):
            made.save(tool(source), session("s1"))
            promote(made, tool(source).digest, examiner(sandbox), Rules(), session("s1"))
        uses = Uses()
        uses.note(tool(TOTAL).digest)
        record_uses(made, uses, Rules(), session("s2"))
        yield made


def test_a_pair_shows_its_tools(macaron: Command, pair: Pair) -> None:
    shown = macaron("pairs", "show", pair.id)
    assert shown.code == 0, shown.err
    lines = [line.split("\t") for line in shown.out.splitlines()]
    assert ["tool", "digest", "state"] in lines
    assert {(row[0], row[2]) for row in lines if len(row) == 3} == {
        ("tool", "state"), ("add", "callable"), ("sort", "demoted: it failed"),
    }  # fmt: skip
    seen = json.loads(macaron("pairs", "show", pair.id, "--json").out)
    assert list(seen["pool"]["tools"]) == ["add"] and seen["manifest"]["pool"] == pair.pool


def test_the_list_says_what_became_of_each(macaron: Command, pair: Pair, pool: LivePool) -> None:
    said = macaron("pool", "list", "--pair", pair.id[:6])
    rows = [line.split("\t") for line in said.out.splitlines()]
    assert [(row[0], row[2]) for row in rows[1:]] == [
        ("add", "promoted"), ("sort", "demoted"), ("order_total", "failed"),
        ("order_total", "promoted"),
    ]  # fmt: skip
    assert rows[3][3] == "passed 0 of 3 trials, 3 are needed (1 wrong)"
    seen = json.loads(macaron("pool", "list", "--pair", pair.id, "--json").out)
    assert seen[1]["reason"] == "it failed" and seen[3]["saved_by"] == ["s1"]


def test_a_tool_is_shown_with_its_source_and_record(
    macaron: Command, pair: Pair, pool: LivePool
) -> None:
    said = macaron("pool", "show", "order_total", "--pair", pair.id).out
    assert TOTAL in said
    assert "6 of 6 passed, 6 needed" in said and "1 calls, 0 raised" in said
    wrong = json.loads(
        macaron("pool", "show", tool(WRONG).digest[:10], "--pair", pair.id, "--json").out
    )
    assert wrong["tool"]["source"] == WRONG and len(wrong["events"]) == 2


def test_a_person_takes_a_tool_away_for_good(macaron: Command, pair: Pair, pool: LivePool) -> None:
    said = macaron("pool", "demote", "order_total", "--why", "rounds cents", "--pair", pair.id)
    assert said.out == f"order_total ({tool(TOTAL).digest[:12]}) is demoted\n"
    assert "order_total" not in pool.snapshot().tools
    assert pool.state().entries[tool(TOTAL).digest].reason == "by Tests: rounds cents"
    again = macaron("pool", "demote", tool(TOTAL).digest[:9], "--why", "again", "--pair", pair.id)
    assert (again.code, again.err.count("\n")) == (7, 1)
    assert "demoted already: by Tests: rounds cents" in again.err
    inherited = macaron("pool", "demote", "add", "--why", "no use", "--pair", pair.id)
    assert inherited.code == 0 and pool.snapshot().tools == {}


@pytest.mark.parametrize("name", ["nothing", "", "0" * 65])
def test_an_unknown_tool_is_one_line(
    macaron: Command, pair: Pair, pool: LivePool, name: str
) -> None:
    said = macaron("pool", "show", name, "--pair", pair.id)
    assert (said.code, said.err.count("\n")) == (7, 1)


def test_without_a_champion_there_is_no_pool(macaron: Command, root: Path) -> None:
    said = macaron("pool", "list")
    assert (said.code, said.err.count("\n")) == (7, 1)
    assert not (root / ".macaron").exists(), "nothing was made"


def test_an_empty_pool_is_no_error(macaron: Command, root: Path, tmp_path: Path) -> None:
    pair = make_pair(PairStore(root / "models" / "pairs"), tmp_path, 0.0)
    assert macaron("pool", "list", "--pair", pair.id).out == "no tool was saved yet\n"
    assert not (root / ".macaron").exists(), "nothing was made"
