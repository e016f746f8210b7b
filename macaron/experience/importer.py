"""Importing chat files: each line becomes a row or goes to quarantine with its reason.

Importing the same file again adds nothing.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from macaron.errors import ExperienceError
from macaron.experience.chat import BadLineError, parse_line
from macaron.experience.redaction import redact, redact_text
from macaron.experience.schema import Trajectory
from macaron.experience.store import ExperienceStore
from macaron.files import atomic_path

LONGEST_LINE = 1 << 20
"""Bytes."""
_BATCH = 5000
_KEPT_OF_LONG = 1024
_BOM = b"\xef\xbb\xbf"


@dataclass
class ImportReport:
    """What importing one file did."""

    path: str
    lines: int = 0
    """Lines that are not blank."""
    rows: int = 0
    """New rows."""
    updated: int = 0
    """Rows known before, whose feedback the file changes."""
    duplicates: int = 0
    """Lines whose row was known and says nothing new."""
    quarantined: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Reason -> lines."""
    quarantine: str | None = None
    """The JSONL of {line, reason, raw}; None where every line was good."""
    redacted: dict[str, int] = field(default_factory=dict)
    """Kind of sensitive text -> placeholders in rows that were written."""
    by_specialist: dict[str, int] = field(default_factory=dict)
    """New rows."""

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def import_file(
    path: Path, store: ExperienceStore, quarantine: Path, imported_at: datetime | None = None
) -> ImportReport:
    """Adds the good lines of a chat JSONL file to the store.

    Args:
        path: UTF-8, one JSON object a line (see `docs/experience.md`).
        store: where the rows go.
        quarantine: JSONL of bad lines, written atomically; removed where there are none. Secrets
            and personal data in them are redacted.
        imported_at: time of rows that name none, and of all feedback; None: this moment.

    Raises:
        ExperienceError: no such file, not readable, a folder, or empty.
        StorageError: the disk is full or read-only.
    """
    report = ImportReport(str(path))
    moment = (imported_at or datetime.now(UTC)).astimezone(UTC)
    with (
        _open(path) as file,
        atomic_path(quarantine) as temporary,
        temporary.open("w", encoding="utf-8") as bad_lines,
    ):
        _Import(store, report, moment, bad_lines).run(file)
    if not report.lines:
        quarantine.unlink()
        raise ExperienceError("is empty", where=str(path), mend="give a file with chats")
    if report.quarantined:
        report.quarantine = str(quarantine)
    else:
        quarantine.unlink()
    return report


def sessions_in(path: Path) -> set[str]:
    """The sessions of a chat file's good lines.

    Raises:
        ExperienceError: it cannot be read.
    """
    found: set[str] = set()
    with _open(path) as file:
        for _, raw, _ in _lines(file):
            with suppress(BadLineError):
                found.add(parse_line(raw, datetime.now(UTC)).session)
    return found


class _Import:
    """One run over a file."""

    def __init__(
        self, store: ExperienceStore, report: ImportReport, moment: datetime, bad_lines: IO[str]
    ) -> None:
        self.store, self.report, self.moment = store, report, moment
        self.bad_lines = bad_lines
        self.batch: list[tuple[int, bytes, Trajectory]] = []

    def run(self, file: IO[bytes]) -> None:
        for number, raw, length in _lines(file):
            self.report.lines += 1
            try:
                if length > LONGEST_LINE:
                    raise BadLineError("line too long", f"{length} bytes")
                self.batch.append((number, raw, parse_line(raw, self.moment)))
            except BadLineError as error:
                self._quarantine(number, raw, error)
            if len(self.batch) >= _BATCH:
                self._flush()
        self._flush()

    def _flush(self) -> None:
        known = self.store.find({row.id for _, _, row in self.batch})
        written: dict[str, Trajectory] = {}
        for number, raw, row in self.batch:
            clean = redact([row])
            try:
                news = self._news(clean.rows[0], known.get(row.id))
            except BadLineError as error:
                self._quarantine(number, raw, error)
                continue
            if news is not None:
                known[row.id] = written[row.id] = news
                for name, count in clean.found.items():
                    _add(self.report.redacted, name, count)
        self.store.append(list(written.values()))
        self.batch.clear()

    def _news(self, row: Trajectory, known: Trajectory | None) -> Trajectory | None:
        """What the row adds to the store; None where it is known."""
        if known is None:
            self.report.rows += 1
            _add(self.report.by_specialist, row.specialist, 1)
            return row
        if tuple(known.messages) != tuple(row.messages):
            raise BadLineError("id: used by another conversation", row.id)
        feedback = known.feedback.updated(row.feedback)
        if replace(feedback, at=None) == replace(known.feedback, at=None):
            self.report.duplicates += 1
            return None
        self.report.updated += 1
        return replace(known, feedback=feedback)

    def _quarantine(self, number: int, raw: bytes, error: BadLineError) -> None:
        self.report.quarantined += 1
        _add(self.report.reasons, error.reason, 1)
        text, _ = redact_text(raw.decode(errors="backslashreplace"))
        reason, _ = redact_text(str(error))
        line = {"line": number, "reason": reason, "raw": text}
        self.bad_lines.write(json.dumps(line, ensure_ascii=False) + "\n")


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count


def _open(path: Path) -> BufferedReader:
    """The file, once it is known to hold something."""
    try:
        if path.is_dir():
            raise ExperienceError("is a folder", where=str(path), mend="give a JSONL file")
        file = path.open("rb")
        if not file.peek(1):
            file.close()
            raise ExperienceError("is empty", where=str(path), mend="give a file with chats")
    except FileNotFoundError as error:
        raise ExperienceError("no such file", where=str(path), mend="check the path") from error
    except OSError as error:
        raise ExperienceError(
            f"cannot be read: {error.strerror}", where=str(path), mend="check its owner and mode"
        ) from error
    return file


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes, int]]:
    """(line number, content, length in bytes); of a line that is too long, only the beginning."""
    number = 0
    while piece := file.readline(LONGEST_LINE + 1):
        number += 1
        length = len(piece)
        kept = piece
        while not piece.endswith(b"\n") and (piece := file.readline(LONGEST_LINE)):
            kept = kept[:_KEPT_OF_LONG]
            length += len(piece)
        content = (kept.removeprefix(_BOM) if number == 1 else kept).strip(b"\r\n\t ")
        if content:
            yield number, content, length
