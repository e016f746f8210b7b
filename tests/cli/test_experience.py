"""`macaron experience`: importing counts every line, and stats count every turn once."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """Three good lines, one of them twice, and two bad ones."""
    turn = {
        "messages": [
            {"role": "user", "content": "Where is Ada?"},
            {"role": "assistant", "content": "In London."},
        ]
    }
    good = [turn | {"id": f"turn-{n}", "rating": 1} for n in (1, 2, 2)]
    lines = [json.dumps(line) for line in good] + ["{broken", json.dumps({"messages": []})]
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_import_counts_every_line_and_stats_every_turn_once(
    macaron: Command, root: Path, chats: Path
) -> None:
    found = macaron("experience", "import", chats)
    assert found.code == 0, found.err
    facts = dict(line.split("  ", 1) for line in found.out.splitlines())
    said = {name.strip(): value.strip() for name, value in facts.items()}
    assert said["lines"] == "5"
    assert said["new turns"].startswith("2 (")
    assert said["known before"] == "1"
    assert said["quarantined"] == "2"
    quarantine = [json.loads(line) for line in Path(said["look at"]).read_text().splitlines()]
    assert [line["line"] for line in quarantine] == [4, 5]

    again = json.loads(macaron("experience", "import", chats, "--json").out)
    assert (again["rows"], again["duplicates"]) == (0, 3)
    stats = json.loads(macaron("experience", "stats", "--json").out)
    assert (stats["rows"], stats["by_source"], stats["with_feedback"]) == (2, {"import": 2}, 2)
    assert "turns          2" in macaron("experience", "stats").out


def test_a_file_that_is_not_there_is_one_line(macaron: Command) -> None:
    found = macaron("experience", "import", "nowhere.jsonl")
    assert (found.code, found.err) == (5, "macaron: nowhere.jsonl: no such file (check the path)\n")


def test_an_empty_store_is_no_error(macaron: Command) -> None:
    found = macaron("experience", "stats")
    assert (found.code, found.out.splitlines()[0].split()) == (0, ["turns", "0"])


def test_a_file_of_bad_lines_alone_is_an_error(macaron: Command, root: Path) -> None:
    (root / "bad.jsonl").write_text("{broken\n[]\n")
    found = macaron("experience", "import", "bad.jsonl")
    assert (found.code, found.err.count("\n")) == (5, 1)
    assert "every line is bad" in found.err
