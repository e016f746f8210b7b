"""When each session was last heard of, as far as the experience tells."""

from datetime import datetime

from macaron.experience.log import CURRENT, TurnLog
from macaron.experience.segment import parse_segment
from macaron.experience.store import ExperienceStore
from macaron.experience.times import parse_time


def last_seen(log: TurnLog, store: ExperienceStore) -> dict[str, datetime]:
    """Session -> time of its last served or imported turn, logged or stored."""
    found: dict[str, datetime] = {}
    for session, at in _moments(log, store):
        if session not in found or at > found[session]:
            found[session] = at
    return found


def _moments(log: TurnLog, store: ExperienceStore) -> list[tuple[str, datetime]]:
    # The log first: compaction moves turns from it to the store.
    moments = []
    for path in (*log.closed(), log.folder / CURRENT):
        try:
            rows = parse_segment(path.read_bytes()).turns.values()
        except FileNotFoundError:
            continue
        moments += [(row.session, parse_time(row.created_at)) for row in rows]
    table = store.read(sources=("served", "import")).select(["session", "created_at"])
    return moments + [(row["session"], row["created_at"]) for row in table.to_pylist()]
