"""Forgetting an end user, or sessions, everywhere: what is deleted, and what only a person can.

The timeline's index of whose a session is goes last, so that what was begun can be run again.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from macaron.experience.ages import last_seen
from macaron.experience.forget import ForgetReport, forget_sessions
from macaron.experience.importer import sessions_in
from macaron.experience.log import TurnLog
from macaron.experience.store import ExperienceStore
from macaron.experience.users import pseudonym
from macaron.mindforge.cycle import cycles
from macaron.serve.sql.place import timeline_url
from macaron.serve.sql.timeline import SqlTimeline, open_timeline
from macaron.settings import Settings


@dataclass(frozen=True)
class Trained:
    """A cycle that collected rows of the sessions: its files and its pair are left as they are."""

    cycle: str
    folder: str
    state: str
    pair: str | None
    """Trained on them, and recorded with them; None where it came to none."""
    turns: int


@dataclass
class Forgetting:
    """What a forgetting did, or would do."""

    timeline_turns: int
    experience: ForgetReport
    beyond: list[Trained] = field(default_factory=list)
    inbox: list[str] = field(default_factory=list)
    """Chat files that name the sessions: each cycle imports them again."""

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


async def forget(
    settings: Settings,
    users: Collection[str] = (),
    sessions: Collection[str] = (),
    before: datetime | None = None,
    dry_run: bool = False,
) -> Forgetting:
    """Deletes all that was kept of end users and of sessions.

    Args:
        users: their names, as the clients gave them.
        before: sessions whose last turn in the experience is older go too.
        dry_run: only count.

    Raises:
        MacaronError: a store cannot be read or written; what is gone is gone, and a rerun goes on.
    """
    log = TurnLog(settings.state / "turns")
    store = ExperienceStore(settings.experience)
    timeline = await open_timeline(timeline_url(settings), serving=False)
    try:
        doomed = set(sessions)
        for user in users:
            doomed |= set(await timeline.sessions_of(pseudonym(settings, user)))
        if before is not None:
            doomed |= {session for session, at in last_seen(log, store).items() if at < before}
        report = forget_sessions(log, store, quarantines(settings), doomed, dry_run)
        turns = await _from_timeline(timeline, doomed, dry_run)
    finally:
        await timeline.close()
    return Forgetting(turns, report, beyond(settings, doomed), inbox(settings, doomed))


async def _from_timeline(timeline: SqlTimeline, sessions: Collection[str], dry_run: bool) -> int:
    if dry_run:
        return await timeline.count(sessions)
    return await timeline.forget(sessions)


def quarantines(settings: Settings) -> list[Path]:
    """Files of rows that were refused."""
    patterns = (
        "quarantine/*.jsonl",
        "cycles/*/experience/imports/*.quarantine.jsonl",
        "cycles/*/validation/quarantine.parquet",
    )
    return sorted(path for pattern in patterns for path in settings.state.glob(pattern))


def beyond(settings: Settings, sessions: Collection[str]) -> list[Trained]:
    """Cycles whose collected rows held any of the sessions."""
    found = []
    for record in cycles(settings):
        folder = Path(record["cycle"]["folder"])
        if turns := _held(folder / "experience" / "collected.parquet", sessions):
            pair = record.get("challenger") or None
            name = record["cycle"]["id"]
            found.append(Trained(name, str(folder), record["state"], pair, turns))
    return found


def _held(path: Path, sessions: Collection[str]) -> int:
    import pyarrow.parquet as pq

    if not path.exists() or not sessions:
        return 0
    wanted = set(sessions)
    column = pq.ParquetFile(path).read(columns=["session"])["session"]
    return sum(session in wanted for session in column.to_pylist())


def inbox(settings: Settings, sessions: Collection[str]) -> list[str]:
    """Chat files whose lines are of the sessions."""
    wanted = set(sessions)
    folder = settings.path(settings.stores.inbox)
    files = sorted(folder.glob("*.jsonl")) if wanted else []
    return [str(path) for path in files if wanted & sessions_in(path)]
