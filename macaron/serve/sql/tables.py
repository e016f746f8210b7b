"""The timeline's tables, the same on SQLite and Postgres.

A turn follows only a turn that is there, of the same session and the same key: the database itself
refuses any other.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)

VERSION = 1
"""Of the tables; a database of a newer one is not touched."""

METADATA = MetaData()
# SQLite counts up only a column of exactly this type.
COUNTER = BigInteger().with_variant(Integer, "sqlite")

VERSIONS = Table("macaron_version", METADATA, Column("version", Integer, primary_key=True))

LIVES = Table(
    "macaron_lives",
    METADATA,
    Column("number", COUNTER, primary_key=True),
    # Never the number of an earlier life again.
    sqlite_autoincrement=True,
)
"""Servers that run, or did until somebody noticed."""

TURNS = Table(
    "macaron_turns",
    METADATA,
    Column("place", COUNTER, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("previous", String),
    Column("session", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("key", String, nullable=False),
    Column("user", String),
    Column("state", String, nullable=False),
    Column("stored", Boolean, nullable=False),
    Column("hidden", Boolean, nullable=False, default=False),
    Column("created", BigInteger, nullable=False),
    Column("logged", Boolean, nullable=False, default=False),
    Column("life", BigInteger, nullable=False),
    Column("orphan", Boolean, nullable=False, default=False),
    Column("summary", LargeBinary),
    Column("summary_tokens", Integer),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("id", "session", "key"),
    ForeignKeyConstraint(
        ["previous", "session", "key"],
        ["macaron_turns.id", "macaron_turns.session", "macaron_turns.key"],
    ),
    sqlite_autoincrement=True,
)
"""Turns. `place` is the order of arrival; `created` is in microseconds since 1970; `hidden` is
deleted for its client; `life` is whose server has to log it; an `orphan`'s own server is dead."""

USERS = Table(
    "macaron_users",
    METADATA,
    Column("user", String, primary_key=True),
    Column("session", String, primary_key=True),
)
"""Whose a session is; it outlives the session's turns, until the session is forgotten."""

Index("macaron_turns_previous", TURNS.c.previous)
Index("macaron_turns_session", TURNS.c.session, TURNS.c.created)
Index("macaron_users_session", USERS.c.session)
Index(
    "macaron_turns_pending",
    TURNS.c.place,
    sqlite_where=text("logged = 0"),
    postgresql_where=text("NOT logged"),
)
