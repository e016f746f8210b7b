"""What the timeline reads and writes, as functions of a connection in a transaction.

Every write may run twice: of a connection that broke at its commit nobody knows whether it failed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    Table,
    and_,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from macaron.serve.records import TurnRecord
from macaron.serve.sql.rows import to_bytes, to_row, to_text
from macaron.serve.sql.tables import TURNS, USERS
from macaron.serve.timeline import UnknownTurnError

CHUNK = 500
"""Values in one statement; databases limit them."""


def insert_turns(connection: Connection, turns: Sequence[TurnRecord], life: int) -> None:
    """Writes new turns, and whose their sessions are; those already there stay as they are."""
    rows = [to_row(turn, life) for turn in turns]
    _insert_new(connection, TURNS, rows)
    owners = {(row["user"], row["session"]) for row in rows if row["user"] is not None}
    _insert_new(connection, USERS, [{"user": u, "session": s} for u, s in sorted(owners)])


def _insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    module = postgresql if connection.dialect.name == "postgresql" else sqlite
    keys = ["id"] if table is TURNS else ["user", "session"]
    connection.execute(module.insert(table).on_conflict_do_nothing(index_elements=keys), rows)


def mark_delivered(connection: Connection, ids: Collection[str]) -> None:
    """Their answers arrived."""
    for chunk in chunks(ids):
        connection.execute(update(TURNS).where(TURNS.c.id.in_(chunk)).values(state="delivered"))


def confirm(connection: Connection, ids: Collection[str]) -> None:
    """Marks turns delivered that a client speaks of.

    Raises:
        UnknownTurnError: one was withdrawn or forgotten before.
    """
    mark_delivered(connection, ids)
    found = sum(
        connection.execute(
            select(func.count()).select_from(TURNS).where(TURNS.c.id.in_(chunk))
        ).scalar_one()
        for chunk in chunks(ids)
    )
    if found < len(ids):
        raise UnknownTurnError(min(ids))


def remove_offered(connection: Connection, ids: Collection[str], life: int) -> None:
    """Deletes turns that this life offered, unless they arrived or others follow them."""
    later = TURNS.alias()
    followed = exists().where(later.c.previous == TURNS.c.id)
    own = and_(TURNS.c.state == "offered", TURNS.c.life == life, ~TURNS.c.orphan, ~followed)
    for chunk in chunks(ids):
        gone = and_(TURNS.c.id.in_(chunk), own)
        sessions = connection.execute(select(TURNS.c.session).where(gone)).scalars().all()
        connection.execute(delete(TURNS).where(gone))
        _disown_empty(connection, sessions)


def _disown_empty(connection: Connection, sessions: Collection[str]) -> None:
    """A session all of whose turns were withdrawn leaves no trace."""
    kept = select(TURNS.c.session).where(TURNS.c.session.in_(sessions))
    connection.execute(
        delete(USERS).where(USERS.c.session.in_(sessions), USERS.c.session.not_in(kept))
    )


def read_chain(connection: Connection, last: str, key: str) -> list[RowMapping]:
    """A turn that the key can go on from and all before it, the first one first; else nothing."""
    start = select(TURNS.c.id, TURNS.c.previous).where(
        TURNS.c.id == last, TURNS.c.key == key, TURNS.c.stored, ~TURNS.c.hidden
    )
    walked = start.cte("walked", recursive=True)
    before = TURNS.alias()
    step = select(before.c.id, before.c.previous).where(before.c.id == walked.c.previous)
    walked = walked.union_all(step)
    query = select(TURNS).join(walked, TURNS.c.id == walked.c.id).order_by(TURNS.c.number)
    return list(connection.execute(query).mappings())


def read_turn(connection: Connection, id: str, key: str) -> RowMapping | None:
    """One turn of the key."""
    query = select(TURNS).where(TURNS.c.id == id, TURNS.c.key == key, ~TURNS.c.hidden)
    return connection.execute(query).mappings().first()


def hide(connection: Connection, id: str, key: str) -> bool:
    """Takes a turn from its client's sight; whether it was in it."""
    shown = and_(TURNS.c.id == id, TURNS.c.key == key, ~TURNS.c.hidden)
    return connection.execute(update(TURNS).where(shown).values(hidden=True)).rowcount > 0


def keep_summary(connection: Connection, id: str, summary: str, tokens: int) -> str:
    """Keeps the first summary of a turn; that one."""
    values = {"summary": to_bytes(summary), "summary_tokens": tokens}
    first = and_(TURNS.c.id == id, TURNS.c.summary.is_(None))
    connection.execute(update(TURNS).where(first).values(**values))
    kept = connection.execute(select(TURNS.c.summary).where(TURNS.c.id == id)).scalar()
    return summary if kept is None else to_text(kept)


def read_pending(connection: Connection, life: int, limit: int) -> list[RowMapping]:
    """What this life has to log, in the order of arrival."""
    due = or_(TURNS.c.state == "delivered", TURNS.c.orphan)
    query = select(TURNS).where(~TURNS.c.logged, TURNS.c.life == life, due)
    return list(connection.execute(query.order_by(TURNS.c.place).limit(limit)).mappings())


def mark_logged(connection: Connection, ids: Collection[str]) -> None:
    """These turns are in the experience."""
    for chunk in chunks(ids):
        connection.execute(update(TURNS).where(TURNS.c.id.in_(chunk)).values(logged=True))


def read_sessions(connection: Connection, user: str) -> list[str]:
    """The sessions of a pseudonym, those with expired turns too."""
    query = select(USERS.c.session).where(USERS.c.user == user).order_by(USERS.c.session)
    return list(connection.execute(query).scalars())


def count_turns(connection: Connection, sessions: Collection[str]) -> int:
    """How many turns sessions have."""
    count = select(func.count()).select_from(TURNS)
    found = (
        connection.execute(count.where(TURNS.c.session.in_(chunk))).scalar_one()
        for chunk in chunks(sessions)
    )
    return sum(map(int, found))


def remove_sessions(connection: Connection, sessions: Collection[str]) -> int:
    """Deletes sessions and whose they were; how many turns."""
    count = 0
    for chunk in chunks(sessions):
        count += connection.execute(delete(TURNS).where(TURNS.c.session.in_(chunk))).rowcount
        connection.execute(delete(USERS).where(USERS.c.session.in_(chunk)))
    return count


def remove_old(connection: Connection, before: int) -> int:
    """Deletes the turns of sessions that are wholly older and logged; how many sessions."""
    needed = select(TURNS.c.session).where(or_(TURNS.c.created >= before, ~TURNS.c.logged))
    old = TURNS.c.session.not_in(needed)
    count = select(func.count(TURNS.c.session.distinct())).where(old)
    found = int(connection.execute(count).scalar_one())
    connection.execute(delete(TURNS).where(old))
    return found


def chunks(values: Collection[str]) -> Iterator[list[str]]:
    """The values without repetition, in an order that all transactions lock them in."""
    ordered = sorted(set(values))
    return (ordered[start : start + CHUNK] for start in range(0, len(ordered), CHUNK))
