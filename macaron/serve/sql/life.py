"""Lives of servers: each start is a new one, and who is dead is known at once.

The kernel or the database releases a dead server's lock; no clock is asked. On SQLite one server
at a time uses the file; on Postgres any number do.
"""

import fcntl
import os
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, text, update
from sqlalchemy.engine import URL

from macaron.errors import BusyError
from macaron.files import storage_errors
from macaron.serve.sql.connect import LOCK_CLASS
from macaron.serve.sql.tables import LIVES, TURNS


def claim_file(url: URL) -> int | None:
    """The lock of the one server of a SQLite file, as an open file; None on Postgres.

    Raises:
        BusyError: another server uses the file.
    """
    if url.drivername != "sqlite":
        return None
    path = Path(f"{url.database}.lock")
    with storage_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise BusyError(
            "another server uses this timeline",
            where=str(url.database),
            mend="end it, or share a Postgres",
        ) from error
    return handle


def begin_life(connection: Connection) -> int:
    """A new life's number; on Postgres, locked for as long as the connection lives."""
    number = connection.execute(insert(LIVES).returning(LIVES.c.number)).scalar_one()
    hold_life(connection, number)
    return int(number)


def hold_life(connection: Connection, number: int) -> None:
    """Takes a life's lock, on a new connection too; others may have thought it dead meanwhile."""
    if connection.dialect.name != "postgresql":
        return
    connection.execute(
        text(f"SELECT pg_advisory_lock({LOCK_CLASS}, CAST(:life AS integer))"), {"life": number}
    )
    if not connection.execute(select(LIVES).where(LIVES.c.number == number)).first():
        connection.execute(insert(LIVES).values(number=number))


def adopt(connection: Connection, number: int) -> None:
    """Makes this life log what dead ones have not."""
    others = select(LIVES.c.number).where(LIVES.c.number != number)
    dead = [n for (n,) in connection.execute(others) if _dead(connection, n)]
    if dead:
        connection.execute(delete(LIVES).where(LIVES.c.number.in_(dead)))
    ownerless = TURNS.c.life.not_in(select(LIVES.c.number))
    connection.execute(
        update(TURNS).where(~TURNS.c.logged, ownerless).values(life=number, orphan=True)
    )


def _dead(connection: Connection, number: int) -> bool:
    if connection.dialect.name != "postgresql":
        # The file's lock is ours.
        return True
    lock = text(f"SELECT pg_try_advisory_xact_lock({LOCK_CLASS}, CAST(:life AS integer))")
    return bool(connection.execute(lock, {"life": number}).scalar_one())
