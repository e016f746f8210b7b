"""Forgetting sessions: their rows leave the turn log, the store and the quarantines.

Killed anywhere and run again, it ends in the same files; no other row is lost on the way. What is
to go is written down first, so that a server that still holds it brings nothing back.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from macaron.experience.doomed import Doomed
from macaron.experience.log import CURRENT, TurnLog
from macaron.experience.rewriting import rewrite
from macaron.experience.store import ExperienceStore


@dataclass
class ForgetReport:
    """What was deleted, or would be."""

    sessions: int = 0
    log_lines: int = 0
    """Turns and feedback in the log that are not compacted yet, and lines set aside."""
    stored_turns: int = 0
    stored_files: int = 0
    """Parquet files that were written again without them."""
    quarantined: int = 0
    """Lines and rows in quarantine."""

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def forget_sessions(
    log: TurnLog,
    store: ExperienceStore,
    quarantines: Sequence[Path],
    sessions: Collection[str],
    dry_run: bool = False,
) -> ForgetReport:
    """Deletes everything of these sessions, beside a server and a compaction that run.

    Args:
        quarantines: JSONL and Parquet files of refused rows.
        dry_run: only count.

    Raises:
        DigestError: a file of the store is not what its name says.
        StorageError: the disk is full or read-only.
    """
    report = ForgetReport(sessions=len(set(sessions)))
    if not sessions:
        return report
    with log.no_compaction():
        doomed = _doom(log, store, sessions, dry_run)
        report.log_lines = _clean_log(log, doomed, dry_run)
        stored = store.turns_of(sessions)
        report.stored_turns = len(stored)
        if stored and not dry_run:
            report.stored_files = store.remove(sessions)
    for path in quarantines:
        report.quarantined += rewrite(path, doomed, dry_run)
    return report


def _doom(log: TurnLog, store: ExperienceStore, sessions: Collection[str], dry_run: bool) -> Doomed:
    """Which turns go with their sessions; later feedback names the turn only.

    Afterwards no more comes of either, and what has come is in closed segments.
    """
    if not dry_run:
        _shut(log, sessions, ())
    log.forgotten.refresh()
    doomed = Doomed(frozenset(sessions), store.turns_of(sessions) | log.forgotten.turns)
    for path in _segments(log, dry_run):
        doomed.look(path)
    if not dry_run:
        # Before anything goes: a rerun must still know them.
        _shut(log, sessions, doomed.turns)
    return doomed


def _shut(log: TurnLog, sessions: Collection[str], turns: Collection[str]) -> None:
    with log.no_append():
        log.forgotten.add(sessions, turns)
        log.close_current()


def _clean_log(log: TurnLog, doomed: Doomed, dry_run: bool) -> int:
    set_aside = sorted((log.folder / "set-aside").glob("*.jsonl"))
    paths = (*_segments(log, dry_run), *set_aside)
    return sum(rewrite(path, doomed, dry_run) for path in paths)


def _segments(log: TurnLog, dry_run: bool) -> list[Path]:
    return [*log.closed(), log.folder / CURRENT] if dry_run else log.closed()
