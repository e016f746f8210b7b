"""Opening the timeline's database: its URL, its connections' settings, its tables.

A commit that returned is on the disk: SQLite syncs its write-ahead log, Postgres waits for its own.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from macaron.errors import ConfigError
from macaron.files import storage_errors
from macaron.serve.sql.faults import place_of
from macaron.serve.sql.tables import METADATA, VERSION, VERSIONS

WAIT = 10
"""Longest wait for a lock or a connection, seconds."""

LOCK_CLASS = 0x6D6163
"""First half of the advisory locks that Macaron takes in Postgres."""


def parse_url(text: str) -> URL:
    """The database's URL, with the driver that is used.

    Raises:
        ConfigError: it is no URL of SQLite or Postgres, or Postgres's driver is not installed.
    """
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise _bad("is no URL") from error
    if url.drivername == "sqlite":
        if not url.database or not Path(url.database).is_absolute():
            raise _bad("names no absolute path of a file")
        return url
    if url.get_backend_name() in ("postgresql", "postgres"):
        _check_driver()
        return url.set(drivername="postgresql+psycopg")
    raise _bad(f"is of {url.drivername}")


def _bad(what: str) -> ConfigError:
    # Not the URL itself: it may hold a password.
    mend = "write sqlite:////path/to/file.db or postgresql://user@host/database"
    return ConfigError(f"the URL {what}", where="timeline", mend=mend)


def _check_driver() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "Postgres's driver is not installed",
            where="timeline",
            mend="pip install 'macaron[postgres]'",
        ) from error


def make_engine(url: URL, connections: int, writes: bool) -> Engine:
    """Connections to the database, none opened yet.

    Args:
        connections: the most there will be.
        writes: whether transactions take SQLite's write lock when they begin.
    """
    if url.drivername == "sqlite":
        engine = create_engine(
            url,
            pool_size=connections,
            max_overflow=0,
            connect_args={"timeout": WAIT, "check_same_thread": False, "isolation_level": None},
        )
        event.listen(engine, "connect", _set_up_sqlite)
        # The driver's own BEGIN comes too late for a savepoint.
        begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine
    return create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": WAIT,
            "tcp_user_timeout": 3 * WAIT * 1000,
            "application_name": "macaron",
        },
    )


def _set_up_sqlite(connection: Any, _: Any) -> None:
    for setting in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        # What was forgotten is overwritten, not only unlinked.
        "secure_delete=ON",
    ):
        connection.execute(f"PRAGMA {setting}").close()


def make_private(url: URL) -> None:
    """Makes SQLite's file readable by its owner only; its companions get the same mode.

    Raises:
        StorageError: it cannot be written.
    """
    if url.drivername != "sqlite":
        return
    path = Path(str(url.database))
    with storage_errors(path), suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Never opened once it is there: to close it would release SQLite's own locks.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def make_tables(connection: Connection, url: URL) -> None:
    """Makes the tables where there are none.

    Raises:
        ConfigError: a newer Macaron made them.
    """
    if connection.dialect.name == "postgresql":
        # Two servers may start at once.
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK_CLASS}, 0)"))
    if not inspect(connection).has_table(VERSIONS.name):
        METADATA.create_all(connection)
        connection.execute(VERSIONS.insert().values(version=VERSION))
    found = connection.execute(select(VERSIONS.c.version)).scalar_one()
    if found != VERSION:
        raise ConfigError(
            f"the timeline is of version {found}, this Macaron's is {VERSION}",
            where=place_of(url),
            mend="use the Macaron that made it, or another database",
        )
