"""The turn log: what was logged before the call returned survives a kill, a crash, a power cut.

Writers append to `current.log` under a file lock and sync before they let go. Compaction closes
that file by renaming it, turns each closed segment into Parquet and only then removes it; killed
anywhere, it is run again and ends in the same files.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from macaron.errors import BusyError, ExperienceError
from macaron.experience.forgotten import Forgotten
from macaron.experience.redaction import redact, redact_feedback
from macaron.experience.schema import Feedback, Trajectory
from macaron.experience.segment import Segment, feedback_line, parse_segment, turn_line
from macaron.experience.store import ExperienceStore, sync_folder
from macaron.experience.table import check_feedback, to_table
from macaron.experience.times import now
from macaron.files import storage_errors, write_atomic

CURRENT = "current.log"


@dataclass
class CompactionReport:
    """What one compaction did."""

    segments: int = 0
    turns: int = 0
    """Turns written to the store."""
    feedback: int = 0
    """Feedback records joined to their turns."""
    set_aside: int = 0
    """Lines that could not be used: torn, damaged, or feedback for a turn nobody logged."""
    redacted: dict[str, int] = field(default_factory=dict)
    """Kind of sensitive text -> placeholders in these turns."""
    untokened: int = 0
    """Turns that lost their token ids by it."""
    files: list[str] = field(default_factory=list)
    """Parquet files."""
    set_aside_files: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


class TurnLog:
    """The log in one folder, shared by any number of threads and processes of one machine.

    Args:
        folder: made on the first write.
        segment_bytes: a segment is closed once it is this long.
    """

    def __init__(self, folder: Path, segment_bytes: int = 16 << 20) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.forgotten = Forgotten(folder)
        """Sessions and turns of which nothing is taken any more."""

    def append(self, trajectory: Trajectory) -> None:
        """Redacts the turn and logs it; on return it is on the disk.

        A turn of a forgotten session is dropped.

        Raises:
            ExperienceError: the turn does not fit the schema; it is not logged.
            StorageError: the disk is full or read-only.
        """
        to_table([trajectory])
        self._append(turn_line(redact([trajectory])), trajectory.id, trajectory.session)

    def append_feedback(self, trajectory_id: str, feedback: Feedback) -> None:
        """Logs what was said of a turn, logged or compacted before; on return it is on the disk.

        Where feedback follows feedback, the later word on each point counts.

        Raises:
            ExperienceError: the feedback does not fit the schema; it is not logged.
            StorageError: the disk is full or read-only.
        """
        check_feedback(feedback)
        clean, found = redact_feedback(replace(feedback, at=feedback.at or now()))
        self._append(feedback_line(trajectory_id, clean, found), trajectory_id)

    def compact(self, store: ExperienceStore) -> CompactionReport:
        """Moves every turn logged so far into the store, its feedback joined by id.

        Lines that cannot be used are moved to `set-aside/`, with the reason.

        Raises:
            BusyError: another process is compacting this log.
        """
        report = CompactionReport()
        if not self.folder.exists():
            return report
        with self._compacting():
            with self.no_append():
                self.close_current()
            for path in self.closed():
                self._move(path, store, report)
        return report

    @contextmanager
    def no_append(self) -> Iterator[None]:
        """Nobody appends within the block."""
        with self._lock("append.lock"):
            yield

    @contextmanager
    def no_compaction(self) -> Iterator[None]:
        """Nobody compacts within the block; waits for one that runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock("forget.lock"), self._lock("compact.lock"):
            yield

    def closed(self) -> list[Path]:
        """The segments that nobody appends to any more, the oldest first."""
        return sorted(self.folder.glob("segment-*.log"))

    @contextmanager
    def _compacting(self) -> Iterator[None]:
        with ExitStack() as stack:
            # A forgetting ends soon and is waited for; another compaction is not.
            with self._lock("forget.lock"):
                stack.enter_context(self._lock("compact.lock", wait=False))
            yield

    def _append(self, line: bytes, turn: str, session: str | None = None) -> None:
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.no_append():
                self.forgotten.refresh()
                if turn in self.forgotten.turns or session in self.forgotten.sessions:
                    return
                if self._write(line) >= self.segment_bytes:
                    self.close_current()

    def _write(self, line: bytes) -> int:
        """Appends and syncs the line; the segment's new length. A failed write leaves no trace."""
        handle = os.open(self.folder / CURRENT, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            end = os.fstat(handle).st_size
            if end and os.pread(handle, 1, end - 1) != b"\n":
                # A writer died in its line: it must not swallow this one.
                line = b"\n" + line
            try:
                _write_all(handle, line)
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, end)
                raise
        finally:
            os.close(handle)
        if end == 0:
            sync_folder(self.folder)
        return end + len(line)

    def close_current(self) -> None:
        """Ends the segment that is written to, so that the next turn begins another."""
        current = self.folder / CURRENT
        if current.exists():
            names = [path.stem for path in self.closed()]
            last = int(names[-1].removeprefix("segment-")) if names else 0
            # Never before an earlier one, whatever the clock does: order joins feedback to turns.
            current.rename(self.folder / f"segment-{max(time.time_ns(), last + 1):020d}.log")
            sync_folder(self.folder)

    def _move(self, path: Path, store: ExperienceStore, report: CompactionReport) -> None:
        segment = parse_segment(path.read_bytes())
        rows = _join(segment, store)
        files = store.append(rows)
        report.segments += 1
        report.turns += len(segment.turns)
        report.files += [str(file) for file in files]
        report.set_aside += len(segment.bad)
        report.feedback += len(segment.feedback)
        report.untokened += segment.untokened
        for name, count in segment.found.items():
            report.redacted[name] = report.redacted.get(name, 0) + count
        if segment.bad:
            kept = self.folder / "set-aside" / f"{path.stem}.jsonl"
            lines = (json.dumps(bad, ensure_ascii=False) + "\n" for bad in segment.bad)
            report.set_aside_files.append(str(write_atomic(kept, "".join(lines))))
            sync_folder(kept.parent)
        path.unlink()
        sync_folder(self.folder)

    @contextmanager
    def _lock(self, name: str, wait: bool = True) -> Iterator[None]:
        """A lock that the kernel releases when its holder dies."""
        with storage_errors(self.folder):
            handle = os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyError(
                    "another process is compacting this log",
                    where=str(self.folder),
                    mend="wait for it to end",
                ) from error
            yield
        finally:
            os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _join(segment: Segment, store: ExperienceStore) -> list[Trajectory]:
    """The segment's turns and the stored ones it speaks of, with their feedback.

    What cannot be joined or stored moves from the segment's turns and feedback to `bad`.
    """
    for row in list(segment.turns.values()):
        try:
            to_table([row])
        except ExperienceError as error:
            del segment.turns[row.id]
            segment.bad.append({"line": None, "reason": str(error), "raw": repr(row)})
    stored = store.find({key for key, _ in segment.feedback if key not in segment.turns})
    rows = {**stored, **segment.turns}
    for entry in list(segment.feedback):
        key, feedback = entry
        if key in rows:
            rows[key] = replace(rows[key], feedback=rows[key].feedback.updated(feedback))
        else:
            segment.feedback.remove(entry)
            segment.bad.append(
                {"line": None, "reason": "feedback for an unknown turn", "raw": repr(entry)}
            )
    return list(rows.values())
