"""`macaron status` on a project that never ran, in every state of a cycle, and for scripts."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from macaron.cli.status import gather
from macaron.experience.schema import Trajectory
from macaron.experience.store import ExperienceStore
from macaron.files import write_json
from macaron.registry.champions import Version
from macaron.settings import load_settings
from tests.cli.conftest import Command


def record(root: Path, **fields: Any) -> None:
    """A cycle's record, as a cycle leaves it."""
    value = {
        "id": "0001-20261201", "state": "promoted", "started": "2026-12-01T02:00:00+00:00",
        "ended": "2026-12-01T02:03:00+00:00", "champion": "a" * 16, "challenger": "b" * 16,
        "error": "", "report": "report.md", "run": "", "inputs_digest": "", "cycle": {},
    } | fields  # fmt: skip
    value["cycle"] = {"folder": str(root / ".macaron" / "cycles" / value["id"])}
    write_json(root / ".macaron" / "cycles" / value["id"] / "cycle.json", value)


def test_a_project_that_never_ran(macaron: Command, root: Path) -> None:
    found = macaron("status")
    assert found.code == 0, found.err
    assert "champion    none yet" in found.out
    assert "macaron improve" in found.out
    assert not (root / ".macaron").exists(), "looking makes nothing"
    seen = json.loads(macaron("status", "--json").out)
    assert (seen["champion"], seen["last_cycle"], seen["running"]) == (None, None, None)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("promoted", "the next generation"),
        ("rejected", "another attempt"),
        ("failed", "goes on where it failed"),
    ],
)
def test_the_last_cycle_and_what_to_do_next(
    macaron: Command, root: Path, state: str, said: str
) -> None:
    record(root, state="promoted")
    record(root, id="0002-20261202", state=state, error="no room\nat all" * (state == "failed"))
    found = macaron("status").out
    assert f"0002-20261202, {state}" in found
    assert said in found
    assert "2 so far" in found
    assert ("error       no room\n" in found) == (state == "failed")


def test_a_running_cycle_is_told_from_a_killed_one(macaron: Command, root: Path) -> None:
    record(root, state="running", ended="", report="")
    lock = root / ".macaron" / "cycle.lock"
    lock.write_text(str(os.getpid()))
    stopped = json.loads(macaron("status", "--json").out)
    assert (stopped["last_cycle"]["state"], stopped["running"]) == ("stopped", None)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = json.loads(macaron("status", "--json").out)
    assert (found["last_cycle"]["state"], found["running"]) == ("running", os.getpid())
    assert found["next"] == [f"wait: process {os.getpid()} runs cycle 0001-20261201"]


def test_what_waits_is_counted(macaron: Command, root: Path) -> None:
    turns = [
        Trajectory(
            id=f"{number:032x}", session="s", source="import", specialist="L0",
            created_at="2026-12-01T00:00:00+00:00",
            messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}],
        )
        for number in range(3)
    ]  # fmt: skip
    ExperienceStore(root / "data" / "experience").append(turns)
    inbox = root / "data" / "inbox"
    inbox.mkdir()
    (inbox / "chats.jsonl").write_text("{}\n")
    assert "3 turns to learn from, 1 file in the inbox" in macaron("status").out


def test_since_when_follows_promotions_and_rollbacks(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(root, challenger="b" * 16)
    pair = {"pair_id": "b" * 16, "generation": "1", "git_tag": "pair/b"}
    champion = Version(2, "b" * 16, "run", pair, ("champion",))
    left = {"rolled_back": "2026-12-05T10:00:00Z by Ada: worse", "rolled_back_to": "b" * 16}
    later = Version(3, "c" * 16, "run", left, ())

    def since(*versions: Version) -> str:
        monkeypatch.setattr("macaron.cli.project.versions", lambda settings: list(versions))
        return str(gather(load_settings(root))["champion"]["since"])

    assert since(champion) == "2026-12-01T02:03:00+00:00"
    assert since(champion, later) == "2026-12-05T10:00:00+00:00"


def test_a_cycle_whose_record_was_cut_is_one_line(macaron: Command, root: Path) -> None:
    record = root / ".macaron" / "cycles" / "0001" / "cycle.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"id": "0001", "sta')
    found = macaron("status")
    assert (found.code, found.err.count("\n")) == (4, 1)
    assert str(record) in found.err
