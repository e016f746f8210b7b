"""`macaron hcp` over files and pairs, and its approval of rewrites."""

import json
from pathlib import Path

import pytest

from macaron.hcp.changes import assign
from macaron.hcp.document import load_hcp
from macaron.hcp.ledger import Ledger
from macaron.hcp.rewrite import propose
from macaron.pair import Pair
from macaron.registry.pairs import PairStore
from tests.cli.conftest import Command
from tests.hcp.texts import FULL
from tests.registry.parts import HCP, adapters, make_pair

SHIPPED = "contracts/hcp/nano.toml"


@pytest.fixture
def file(root: Path) -> Path:
    path = root / "harness.toml"
    path.write_text(FULL)
    return path


@pytest.fixture
def pairs(root: Path, tmp_path: Path) -> list[Pair]:
    """An ancestor, and a child under another harness."""
    store = PairStore(root / "models" / "pairs")
    first = make_pair(store, tmp_path, 0.0)
    harness = tmp_path / "other.toml"
    harness.write_text(HCP.read_text().replace("max_tokens = 64", "max_tokens = 32"))
    parts = adapters(tmp_path / "parts", 1.0)
    return [first, store.create("0" * 64, parts, harness, first.id, 1)]


def test_show_takes_a_file_a_pair_or_nothing(
    macaron: Command, file: Path, pairs: list[Pair]
) -> None:
    settings = macaron("hcp", "show").out
    assert settings.startswith(f"# HCP {load_hcp(HCP).digest}\n"), "no champion yet"
    assert macaron("hcp", "show", pairs[0].id[:8]).out == settings
    assert "max_tokens = 32" in macaron("hcp", "show", pairs[1].id).out
    shown = macaron("hcp", "show", file)
    again = file.with_name("again.toml")
    again.write_text(shown.out)
    assert load_hcp(again) == load_hcp(file)
    assert "top_p" not in shown.out and "top_p" in macaron("hcp", "show", file, "--defaults").out
    seen = json.loads(macaron("hcp", "show", file, "--json").out)
    assert seen["digest"] == load_hcp(file).digest and seen["hcp"]["workspace"]["cpu_s"] == 7


def test_show_takes_a_field(macaron: Command, file: Path) -> None:
    assert macaron("hcp", "show", file, "specialists.L0.system").out == "Be brief.\n"
    assert macaron("hcp", "show", file, "workspace.cpu_s").out == "7\n"
    assert json.loads(macaron("hcp", "show", file, "specialists.L0.skills").out) == ["greet"]
    assert macaron("hcp", "show", file, "hooks.0.name", "--json").out == '"no-delete"\n'
    wrong = macaron("hcp", "show", file, "specialists.L2")
    assert (wrong.code, wrong.err) == (
        2,
        "macaron: specialists.L2: no such field (there are L0, L1)\n",
    )


def test_validate_says_what_a_file_is(macaron: Command, file: Path) -> None:
    good = macaron("hcp", "validate", file)
    assert good.code == 0 and "migrated" not in good.out
    assert "1.1, 2 specialists, 3 tools, 1 skill, 1 MCP server, 2 hooks" in good.out
    old = macaron("hcp", "validate", SHIPPED)
    assert "migrated  1.0 -> 1.1: fields that are new have their defaults\n" in old.out
    seen = json.loads(macaron("hcp", "validate", SHIPPED, "--json").out)
    assert len(seen["migrations"]) == 1 and len(seen["digest"]) == 64
    file.write_text(FULL.replace('"search", ', '"serch", '))
    bad = macaron("hcp", "validate", file)
    assert (bad.code, bad.err.count("\n")) == (2, 1)
    assert f"{file}: specialists.L1.tools.0: no tool 'serch'; there are search" in bad.err


def test_diff_takes_files_and_pairs(macaron: Command, file: Path, pairs: list[Pair]) -> None:
    head, *rows = macaron("hcp", "diff", pairs[0].id, pairs[1].id).out.splitlines()
    assert head == "field\told\tnew"
    assert rows == ["specialists.L1.max_tokens\t64\t32"]
    assert macaron("hcp", "diff", SHIPPED, pairs[0].id).out == "the same harness\n"
    found = json.loads(macaron("hcp", "diff", pairs[0].id, file, "--json").out)
    assert {"path": "workspace.cpu_s", "old": 5, "new": 7} in found
    assert macaron("hcp", "diff", file, file).code == 0
    unknown = macaron("hcp", "diff", file, "feedbeef")
    assert (unknown.code, unknown.err.count("\n")) == (7, 1)


def test_set_changes_a_file_or_leaves_it(macaron: Command, file: Path) -> None:
    done = macaron("hcp", "set", file, "specialists.L0.system", "Be kind.")
    assert done.out.splitlines()[0] == 'specialists.L0.system: "Be brief." -> "Be kind."'
    assert load_hcp(file).specialists["L0"].system == "Be kind." and "# its label" in (
        kept := file.read_text()
    )
    same = macaron("hcp", "set", file, "specialists.L0.system", "Be kind.")
    assert (same.code, same.out) == (0, "it has that value\n")
    bad = macaron("hcp", "set", file, "specialists.L0.max_tokens", "0")
    assert (bad.code, bad.err.count("\n")) == (2, 1)
    assert f"{file}: specialists.L0.max_tokens: input should be greater than 0" in bad.err
    assert file.read_text() == kept
    old = macaron("hcp", "set", SHIPPED, "memory.keep_turns", "2")
    assert old.out.startswith("migrated 1.0 -> 1.1")


def test_a_pairs_harness_cannot_be_set(macaron: Command, root: Path, pairs: list[Pair]) -> None:
    file = root / "models/pairs" / pairs[0].id / "hcp.toml"
    before = file.read_bytes()
    done = macaron("hcp", "set", file, "specialists.L0.system", "x")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "a pair never changes" in done.err and file.read_bytes() == before


def test_approve_lists_what_waits_and_records_who(
    macaron: Command, root: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert macaron("hcp", "approve").out == "nothing waits\n"
    assert not (root / ".macaron").exists(), "looking makes nothing"
    hcp, ledger = load_hcp(file), Ledger(root / ".macaron" / "hcp")
    first, second = (
        propose(hcp, assign(hcp, path, value), ["*"], ledger, why="fewer calls")
        for path, value in (("specialists.L1.tools", ["shell"]), ("workspace.network", True))
    )
    listed = macaron("hcp", "approve").out
    assert first.id in listed and second.id in listed
    assert 'specialists.L1.tools: ["search","shell","web.fetch"] -> ["shell"]' in listed
    assert "it touches network" in listed and "fewer calls" in listed

    done = macaron("hcp", "approve", first.id, "--who", "Ada", "--why", "no search needed")
    assert done.code == 0 and f"{first.id} is approved by Ada at " in done.out
    (waiting,) = json.loads(macaron("hcp", "approve", "--json").out)
    assert waiting["id"] == second.id
    assert propose(hcp, assign(hcp, "specialists.L1.tools", ["shell"]), ["*"], ledger).decision == (
        "applied"
    )
    again = macaron("hcp", "approve", first.id)
    assert (again.code, again.err.count("\n")) == (2, 1) and "Ada approved it" in again.err

    monkeypatch.setenv("LOGNAME", "grace")
    by_user = json.loads(macaron("hcp", "approve", second.id, "--json").out)
    assert by_user["who"] == "grace"


def test_approve_refuses_what_changed_while_it_waited(
    macaron: Command, root: Path, file: Path
) -> None:
    hcp, ledger = load_hcp(file), Ledger(root / ".macaron" / "hcp")
    found = propose(hcp, assign(hcp, "workspace.cpu_s", 9), ["*"], ledger)
    document = ledger.document(found.id)
    document.write_text(document.read_text().replace("cpu_s = 9", "cpu_s = 9000"))
    done = macaron("hcp", "approve", found.id)
    assert (done.code, done.err.count("\n")) == (4, 1)
    assert "is not the document that was proposed" in done.err
    assert [record.id for record in ledger.waiting()] == [found.id]
