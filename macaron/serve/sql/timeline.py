"""The timeline in a database: SQLite in a file, or Postgres by URL.

The event loop never waits for the database: one thread writes, a few read. A turn that is shown
to a client was committed before.
"""

import asyncio
import os
import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from macaron.serve.records import TurnRecord
from macaron.serve.sql import life, statements
from macaron.serve.sql.connect import make_engine, make_private, make_tables, parse_url
from macaron.serve.sql.faults import database_errors
from macaron.serve.sql.rows import from_row, microseconds
from macaron.serve.sql.writer import Writer
from macaron.serve.timeline import UnknownTurnError

READERS = 4

# An id is whatever a client sends; some databases fail on some characters.
_ID = re.compile(r"[!-~]{1,200}")


class SqlTimeline:
    """`Timeline` in SQL; made by `open_timeline`."""

    def __init__(self, url: URL, lock: int | None) -> None:
        self._url, self._lock = url, lock
        self._life = 0
        self._writing = make_engine(url, connections=1, writes=True)
        self._reading = make_engine(url, connections=READERS, writes=False)
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="timeline")
        self._writer = Writer(self._writing, self._reconnected)

    async def offer(self, turns: Sequence[TurnRecord]) -> None:
        """Writes turns whose answers are about to go out, all or none; twice is once.

        Raises:
            StorageError: they cannot be kept, or what they follow has been forgotten.
        """
        await self._writer.do(partial(statements.insert_turns, turns=turns, life=self._life))

    async def delivered(self, ids: Collection[str]) -> None:
        """The answers went out whole; those withdrawn stay so."""
        await self._writer.do(partial(statements.mark_delivered, ids=ids))

    async def withdraw(self, ids: Collection[str]) -> None:
        """Deletes turns that this server offered, unless they arrived or others follow them."""
        await self._writer.do(partial(statements.remove_offered, ids=ids, life=self._life))

    async def chain(self, last: str, key: str) -> list[TurnRecord]:
        """A stored turn and all before it, the first one first; an offered one is delivered now.

        Raises:
            UnknownTurnError: no such turn of this key.
        """
        if not _ID.fullmatch(last):
            raise UnknownTurnError(last)
        read = partial(statements.read_chain, last=last, key=key)
        turns = await self._read(lambda connection: [from_row(row) for row in read(connection)])
        if not turns:
            raise UnknownTurnError(last)
        if offered := [turn.id for turn in turns if turn.state == "offered"]:
            await self._writer.do(partial(statements.confirm, ids=offered))
        return [_delivered(turn) for turn in turns]

    async def get(self, id: str, key: str) -> TurnRecord | None:
        """One turn of this key, stored or not."""
        if not _ID.fullmatch(id):
            return None
        row = await self._read(partial(statements.read_turn, id=id, key=key))
        return None if row is None else from_row(row)

    async def delete(self, id: str, key: str) -> bool:
        """Forgets a turn for its client; one that later turns follow, they still remember.

        What it says leaves the database with its session: by `expire` or `forget`.
        """
        if not _ID.fullmatch(id):
            return False
        return bool(await self._writer.do(partial(statements.hide, id=id, key=key)))

    async def summarised(self, id: str, summary: str, tokens: int) -> str:
        """Keeps the first summary of a turn; returns that one.

        The tokens that it cost are in the turn's `usage` from then on, as `summary_tokens`.
        """
        work = partial(statements.keep_summary, id=id, summary=summary, tokens=tokens)
        return str(await self._writer.do(work))

    async def pending(self, limit: int) -> list[TurnRecord]:
        """What this server has to log, the oldest first: its delivered turns, and those that dead
        servers had delivered or offered."""
        await self._writer.do(partial(life.adopt, number=self._life))
        read = partial(statements.read_pending, life=self._life, limit=limit)
        found = await self._read(lambda connection: [from_row(row) for row in read(connection)])
        return list(found)

    async def logged(self, ids: Collection[str]) -> None:
        """These turns are in the experience."""
        await self._writer.do(partial(statements.mark_logged, ids=ids))

    async def sessions_of(self, user: str) -> list[str]:
        """The sessions of an end user, by pseudonym; those that have expired too."""
        return list(await self._read(partial(statements.read_sessions, user=user)))

    async def forget(self, sessions: Collection[str]) -> int:
        """Deletes sessions whole, and whose they were; how many turns they had."""
        count = int(await self._writer.do(partial(statements.remove_sessions, sessions=sessions)))
        if self._url.drivername == "sqlite":
            await self._in_thread(_empty_log)
        return count

    async def count(self, sessions: Collection[str]) -> int:
        """How many turns `forget` would delete."""
        return int(await self._read(partial(statements.count_turns, sessions=sessions)))

    async def expire(self, before: str) -> int:
        """Deletes the turns of sessions whose last one is older than a time, all in the
        experience; how many sessions. `sessions_of` still names them."""
        work = partial(statements.remove_old, before=microseconds(before))
        return int(await self._writer.do(work))

    async def close(self) -> None:
        """Ends the connection, once all that was asked is written."""
        await asyncio.to_thread(self._close)

    def open(self, serving: bool) -> None:
        """Connects and makes the tables; blocks."""
        with database_errors(self._url):
            connection = self._writing.connect()
            with connection.begin():
                make_tables(connection, self._url)
                if serving:
                    self._life = life.begin_life(connection)
                    life.adopt(connection, self._life)
        self._writer.start(connection)

    def release(self) -> None:
        """Lets go of what `open` did not get to use."""
        self._threads.shutdown()
        self._writing.dispose()
        self._reading.dispose()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _close(self) -> None:
        self._writer.close()
        self.release()

    def _reconnected(self, connection: Connection) -> None:
        if self._life:
            life.hold_life(connection, self._life)

    async def _read(self, work: Callable[[Connection], Any]) -> Any:
        return await self._in_thread(partial(_read, work))

    async def _in_thread(self, work: Callable[[Engine], Any]) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, work, self._reading)


async def open_timeline(url: str, serving: bool = True) -> SqlTimeline:
    """The timeline of a database; its tables are made where there are none.

    Args:
        url: `sqlite:////path/to/file.db` or `postgresql://user:password@host/database`.
        serving: whether it is a server's; False for a tool beside one, which offers nothing and
            has nothing pending.

    Raises:
        ConfigError: the URL cannot be used, or a newer Macaron made the tables.
        StorageError: the file cannot be used: it is damaged, locked, read-only or the disk full.
        ServiceError: Postgres does not answer.
        BusyError: another server uses the SQLite file.
    """
    return await asyncio.to_thread(_open, parse_url(url), serving)


def _open(url: URL, serving: bool) -> SqlTimeline:
    make_private(url)
    timeline = SqlTimeline(url, life.claim_file(url) if serving else None)
    try:
        timeline.open(serving)
    except BaseException:
        timeline.release()
        raise
    return timeline


def _read(work: Callable[[Connection], Any], engine: Engine) -> Any:
    with database_errors(engine.url), engine.connect() as connection:
        return work(connection)


def _empty_log(engine: Engine) -> None:
    """SQLite's write-ahead log still has what the database has lost."""
    with database_errors(engine.url):
        connection = engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close()


def _delivered(turn: TurnRecord) -> TurnRecord:
    return turn if turn.state == "delivered" else replace(turn, state="delivered")
