"""`macaron experience forget`, beside a server that has the timeline open."""

import asyncio
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from macaron.errors import StorageError
from macaron.experience.log import TurnLog
from macaron.experience.schema import Trajectory
from macaron.experience.store import ExperienceStore
from macaron.experience.table import from_table, to_table
from macaron.experience.users import pseudonym
from macaron.serve.sql.place import timeline_url
from macaron.serve.sql.timeline import open_timeline
from macaron.settings import Settings, load_settings
from tests.cli.conftest import Command
from tests.experience.rows import turn
from tests.serve.turns import after, first

NAME = "ada-lovelace"


def live(settings: Settings) -> list[Trajectory]:
    """Three sessions, two of them ada's, in every place; the experience's rows."""
    rows = [turn(f"resp_{n}", session=f"resp_{n}") for n in (1, 2, 3)]
    log, store = TurnLog(settings.state / "turns"), ExperienceStore(settings.experience)
    log.append(rows[0])
    log.append(rows[2])
    log.compact(store)
    log.append(rows[1])
    folder = settings.state / "cycles" / "c1"
    (folder / "experience").mkdir(parents=True)
    pq.write_table(to_table(rows[:1]), folder / "experience" / "collected.parquet")
    cycle = {"id": "c1", "folder": str(folder)}
    record = {"cycle": cycle, "state": "promoted", "challenger": "f" * 16}
    (folder / "cycle.json").write_text(json.dumps(record))
    inbox = settings.path(settings.stores.inbox)
    inbox.mkdir(parents=True)
    chat = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}
    (inbox / "chats.jsonl").write_text(json.dumps(chat | {"session": "resp_1"}) + "\n")
    return rows


async def serve_and(settings: Settings, work) -> list[str]:
    """Runs the work in a thread while a server has its timeline open; the turns it has left."""
    timeline = await open_timeline(timeline_url(settings))
    try:
        ada, bob = pseudonym(settings, NAME), pseudonym(settings, "bob")
        one = first("resp_1", user=ada)
        await timeline.offer([one, after(one, "resp_1b")])
        await timeline.offer([first("resp_2", user=ada), first("resp_3", user=bob)])
        await timeline.delivered(["resp_1", "resp_1b", "resp_2", "resp_3"])
        await timeline.logged(["resp_1"])
        await asyncio.to_thread(work)
        return [turn.id for turn in await timeline.pending(99)]
    finally:
        await timeline.close()


def test_a_users_data_is_deleted_and_what_was_learned_is_named(
    macaron: Command, root: Path
) -> None:
    settings = load_settings(root)
    live(settings)

    def work() -> None:
        counted = json.loads(
            macaron("experience", "forget", "--user", NAME, "--dry-run", "--json").out
        )
        assert counted["timeline_turns"] == 3 and counted["experience"]["stored_turns"] == 1
        found = macaron("experience", "forget", "--user", NAME, "--user", "nobody")
        assert found.code == 0, found.err
        assert "timeline    deleted: 3 turns" in found.out
        assert "turn log    deleted: 1 lines" in found.out
        assert "experience  deleted: 1 turns" in found.out
        assert f"cycle c1, 1 turns; pair {'f' * 16} was trained on them" in found.out
        assert "chats.jsonl still has them" in found.out

    assert asyncio.run(serve_and(settings, work)) == ["resp_3"]
    store = ExperienceStore(settings.experience)
    TurnLog(settings.state / "turns").compact(store)
    assert [row.id for row in from_table(store.read())] == ["resp_3"]
    again = json.loads(macaron("experience", "forget", "--user", NAME, "--json").out)
    assert again["experience"]["sessions"] == 0
    held = [p for p in settings.state.rglob("*") if p.is_file() and NAME.encode() in p.read_bytes()]
    assert held == []


def test_sessions_by_id_and_by_age(macaron: Command, root: Path) -> None:
    settings = load_settings(root)
    store = ExperienceStore(settings.experience)
    store.append(
        [
            turn("a", session="old"),
            turn("b", session="old-but-heard-of"),
            turn("c", session="old-but-heard-of", created_at="2999-01-01T00:00:00+00:00"),
            turn("d", session="named", created_at="2999-01-01T00:00:00+00:00"),
        ]
    )
    found = macaron("experience", "forget", "--older-than", "1", "--session", "named")
    assert found.code == 0, found.err
    assert {row.id for row in from_table(store.read())} == {"b", "c"}


def test_naming_nobody_is_one_line(macaron: Command) -> None:
    found = macaron("experience", "forget")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "give --user, --session or --older-than" in found.err


def test_a_forgetting_that_was_broken_off_is_gone_on_with(
    macaron: Command, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(root)
    live(settings)

    async def broken(*_: object) -> int:
        raise StorageError("the disk is full", where="timeline")

    def work() -> None:
        with monkeypatch.context() as patch:
            # The last step: until it is done, the user's sessions are still known.
            patch.setattr("macaron.serve.sql.timeline.SqlTimeline.forget", broken)
            assert macaron("experience", "forget", "--user", NAME).code == 9
        found = json.loads(macaron("experience", "forget", "--user", NAME, "--json").out)
        assert (found["timeline_turns"], found["experience"]["sessions"]) == (3, 2)

    assert asyncio.run(serve_and(settings, work)) == ["resp_3"]
