"""What a database says when it fails, as one line for a person; never with a password in it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from macaron.errors import MacaronError, ServiceError, StorageError

_SQLITE = {
    sqlite3.SQLITE_FULL: ("the disk is full", "free space"),
    sqlite3.SQLITE_READONLY: ("cannot be written", "check its owner and mode"),
    sqlite3.SQLITE_PERM: ("cannot be written", "check its owner and mode"),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "check the path, its owner and mode"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", "restore a copy, or move it away"),
    sqlite3.SQLITE_NOTADB: ("is no SQLite database", "restore a copy, or move it away"),
    sqlite3.SQLITE_BUSY: ("is locked by another program", "end that program"),
    sqlite3.SQLITE_LOCKED: ("is locked by another program", "end that program"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", "check the disk"),
}
_PRIMARY_CODE = 0xFF

# SQLSTATE classes and codes.
_POSTGRES = {
    "53100": ("the database's disk is full", "free space"),
    "25006": ("the database is read-only", "use the primary server"),
    "42501": ("the role may not do this", "grant it the right to the tables"),
    "57014": ("the database took too long", "see what locks its tables"),
    "55P03": ("the database took too long", "see what locks its tables"),
    "40P01": ("the database ended a deadlock", "try again"),
}

FORGOTTEN = "the turn it follows was forgotten meanwhile"


def place_of(url: URL) -> str:
    """The database's name in messages."""
    if url.get_backend_name() == "sqlite":
        return url.database or "SQLite"
    return url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)


@contextmanager
def database_errors(url: URL) -> Iterator[None]:
    """Turns a database's faults into one line; other errors pass."""
    try:
        yield
    except DBAPIError as error:
        raise explained(error, url) from error


def explained(error: DBAPIError, url: URL) -> MacaronError:
    """One line for a failed statement."""
    where = place_of(url)
    if isinstance(error, IntegrityError):
        return StorageError(FORGOTTEN, where=where, mend="begin a new session")
    if isinstance(error.orig, sqlite3.Error):
        return _of_sqlite(error.orig, where)
    return _of_postgres(error, where)


def _of_sqlite(error: sqlite3.Error, where: str) -> MacaronError:
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
    what, mend = _SQLITE.get(code, (_line(error), "restore a copy, or move it away"))
    return StorageError(what, where=where, mend=mend)


def _of_postgres(error: DBAPIError, where: str) -> MacaronError:
    state = getattr(error.orig, "sqlstate", None) or ""
    if state in _POSTGRES:
        what, mend = _POSTGRES[state]
        return StorageError(what, where=where, mend=mend)
    if isinstance(error, OperationalError) or error.connection_invalidated:
        what = f"Postgres does not answer: {_line(error.orig)}"
        return ServiceError(what, where=where, mend="start it, or correct the URL")
    return StorageError(_line(error.orig), where=where, mend="see Postgres's log")


def _line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
