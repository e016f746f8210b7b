"""The timeline on SQLite: what is acknowledged is kept, and every fault is one line."""

import asyncio
import sqlite3
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from macaron.errors import BusyError, ConfigError, MacaronError, ServiceError, StorageError
from macaron.serve.sql.faults import FORGOTTEN
from macaron.serve.sql.timeline import SqlTimeline, open_timeline
from macaron.serve.timeline import UnknownTurnError
from tests.serve.killed import acknowledged_before_kill
from tests.serve.turns import after, first

Scene = Callable[[SqlTimeline], Coroutine[Any, Any, None]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "timeline.db"


def url_of(file: Path) -> str:
    return f"sqlite:///{file}"


def play(file: Path, scene: Scene) -> None:
    """Runs a scene on the timeline of a file."""

    async def run() -> None:
        timeline = await open_timeline(url_of(file))
        try:
            await scene(timeline)
        finally:
            await timeline.close()

    asyncio.run(run())


def complaint(file: Path | str) -> MacaronError:
    """What opening it says."""
    url = file if isinstance(file, str) else url_of(file)
    with pytest.raises(MacaronError) as caught:
        asyncio.run(open_timeline(url))
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_killed_server_loses_no_acknowledged_turn(file: Path) -> None:
    told = acknowledged_before_kill(url_of(file))

    async def scene(timeline: SqlTimeline) -> None:
        found = [turn.id for turn in await timeline.pending(100_000)]
        assert set(told) <= set(found)
        last = max(found, key=lambda id: int(id.partition(".")[2] or 0))
        numbers = [turn.number for turn in await timeline.chain(last, "key-a")]
        assert numbers == list(range(len(numbers)))

    play(file, scene)


def test_many_sessions_share_a_commit(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        commits = []
        event.listen(timeline._writing, "commit", commits.append)
        await asyncio.gather(*(timeline.offer([first(f"resp_{n}")]) for n in range(64)))
        assert len(commits) < 8
        assert len(await timeline.pending(100)) == 0

    play(file, scene)


def test_an_operation_that_fails_fails_alone(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        offers = [timeline.offer([first(f"resp_{n}")]) for n in range(20)]
        lost = after(first("resp_none"), "resp_lost")
        # Its first turn could be kept; the second one cannot.
        offers.insert(10, timeline.offer([first("resp_good"), lost]))
        results = await asyncio.gather(*offers, return_exceptions=True)
        (failed,) = [result for result in results if result is not None]
        assert isinstance(failed, StorageError) and FORGOTTEN in str(failed)
        assert await timeline.get("resp_good", "key-a") is None
        assert await timeline.get("resp_19", "key-a") is not None

    play(file, scene)


def test_a_turn_never_follows_one_of_another_key(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        root = first("resp_1")
        await timeline.offer([root])
        with pytest.raises(StorageError):
            await timeline.offer([after(root, "resp_2", key="key-b")])
        with pytest.raises(UnknownTurnError):
            await timeline.chain("resp_1", "key-b")
        assert not await timeline.delete("resp_1", "key-b")

    play(file, scene)


def test_a_deleted_turn_is_still_remembered_by_later_ones(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        root = first("resp_1")
        await timeline.offer([root, after(root, "resp_2")])
        assert await timeline.delete("resp_1", "key-a")
        assert await timeline.get("resp_1", "key-a") is None
        assert [turn.id for turn in await timeline.chain("resp_2", "key-a")] == ["resp_1", "resp_2"]
        with pytest.raises(UnknownTurnError):
            await timeline.chain("resp_1", "key-a")

    play(file, scene)


@pytest.mark.parametrize("id", ["", "\0", "\ud800", "resp_1 ", "é", "x" * 100_000, "resp_1' --"])
def test_any_id_that_is_none_is_unknown(file: Path, id: str) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        with pytest.raises(UnknownTurnError):
            await timeline.chain(id, "key-a")
        assert await timeline.get(id, "key-a") is None
        assert not await timeline.delete(id, "key-a")

    play(file, scene)


def test_a_turn_in_flight_is_not_pending_and_one_of_a_dead_server_is(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        await timeline.offer([first("resp_1")])
        assert await timeline.pending(9) == []

    async def later(timeline: SqlTimeline) -> None:
        assert [turn.id for turn in await timeline.pending(9)] == ["resp_1"]
        # Whether it arrived is not known: it is not for this server to take back.
        await timeline.withdraw(["resp_1"])
        assert await timeline.get("resp_1", "key-a") is not None

    play(file, scene)
    play(file, later)


def test_a_cancelled_offer_that_is_withdrawn_leaves_no_trace(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        offer = asyncio.create_task(timeline.offer([first("resp_1", user="u")]))
        await asyncio.sleep(0)
        offer.cancel()
        await timeline.withdraw(["resp_1"])
        assert await timeline.get("resp_1", "key-a") is None
        assert await timeline.sessions_of("u") == []

    play(file, scene)


def test_what_was_forgotten_is_in_no_file(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        secret = "a-sentence-to-forget"
        await timeline.offer([first("resp_1", answer=secret * 50), first("resp_2")])
        assert any(secret.encode() in path.read_bytes() for path in file.parent.iterdir())
        assert await timeline.forget(["resp_1"]) == 1
        assert not any(secret.encode() in path.read_bytes() for path in file.parent.iterdir())
        assert await timeline.get("resp_2", "key-a") is not None

    play(file, scene)


def test_expired_sessions_are_still_known_as_the_users(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        await timeline.offer([first("resp_1", user="u")])
        await timeline.delivered(["resp_1"])
        assert await timeline.expire("2027-01-01T00:00:00Z") == 0
        await timeline.logged(["resp_1"])
        assert await timeline.expire("2027-01-01T00:00:00Z") == 1
        assert await timeline.sessions_of("u") == ["resp_1"]
        assert await timeline.forget(["resp_1"]) == 0
        assert await timeline.sessions_of("u") == []

    play(file, scene)


def test_only_the_owner_can_read_the_files(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        await timeline.offer([first("resp_1")])
        modes = {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        assert modes == {0o600}

    play(file, scene)


def test_a_second_server_is_refused_and_a_tool_is_not(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        await timeline.offer([first("resp_1", user="u")])
        with pytest.raises(BusyError):
            await open_timeline(url_of(file))
        tool = await open_timeline(url_of(file), serving=False)
        assert await tool.sessions_of("u") == ["resp_1"]
        await tool.close()
        # The tool's start was no later life of the server.
        assert await timeline.pending(9) == []
        await timeline.withdraw(["resp_1"])
        assert await timeline.get("resp_1", "key-a") is None

    play(file, scene)


def test_a_closed_timeline_says_so(file: Path) -> None:
    async def scene() -> None:
        timeline = await open_timeline(url_of(file))
        await timeline.close()
        with pytest.raises(StorageError, match="closed"):
            await timeline.offer([first("resp_1")])

    asyncio.run(scene())


def test_a_full_disk_is_one_line_and_passes(file: Path) -> None:
    async def scene(timeline: SqlTimeline) -> None:
        await limit_pages(timeline, 1)
        with pytest.raises(StorageError, match="the disk is full"):
            await timeline.offer([first("resp_1", answer="x" * 1_000_000)])
        await limit_pages(timeline, 1 << 20)
        await timeline.offer([first("resp_1", answer="x" * 1_000_000)])

    play(file, scene)


async def limit_pages(timeline: SqlTimeline, pages: int) -> None:
    """SQLite's own limit: to it, the disk is full there."""
    await timeline._writer.do(
        lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={pages}").close()
    )


def test_a_locked_file_is_one_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("macaron.serve.sql.connect.WAIT", 0.05)

    async def scene(timeline: SqlTimeline) -> None:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="locked by another program"):
            await timeline.offer([first("resp_1")])
        other.close()
        await timeline.offer([first("resp_1")])

    play(file, scene)


def test_a_damaged_file_is_one_line(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database at all, " * 500)
    assert isinstance(complaint(file), StorageError)
    assert "no SQLite database" in str(complaint(file))


def test_a_newer_timeline_is_left_alone(file: Path) -> None:
    play(file, lambda timeline: timeline.offer([first("resp_1")]))
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE macaron_version SET version = 99")
    assert "is of version 99" in str(complaint(file))


def test_a_folder_in_the_files_place_is_one_line(file: Path) -> None:
    file.mkdir(parents=True)
    assert "cannot be opened" in str(complaint(file))


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("", ConfigError),
        ("timeline.db", ConfigError),
        ("sqlite://", ConfigError),
        ("sqlite:///relative.db", ConfigError),
        ("mysql://root:secret@127.0.0.1/x", ConfigError),
        ("postgresql://user:secret@127.0.0.1:1/x", ServiceError),
        ("postgres://user:secret@127.0.0.1:1/x", ServiceError),
    ],
)
def test_a_url_that_cannot_be_used_is_one_line_without_its_password(
    url: str, kind: type[MacaronError]
) -> None:
    error = complaint(url)
    assert isinstance(error, kind)
    assert "secret" not in str(error)
