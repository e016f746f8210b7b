"""The record of rewrites: every proposal and approval, in one append-only file.

Each line holds the digest of the one before it, so that a line that was changed, taken out or put
in is found when the record is next read. A proposal that waits has its document beside it.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from macaron.errors import DigestError
from macaron.files import canonical_json, digest_bytes, storage_errors

Event = Literal["applied", "refused", "needs-review", "approved"]
RECORDS = "rewrites.jsonl"
FIRST = "0" * 64
"""What stands for the line before the first."""
_KEYS = {"previous", "at", "event", "id", "facts"}


@dataclass(frozen=True)
class Record:
    """One line."""

    event: Event
    id: str
    """Of the rewrite: the same documents before and after give the same."""
    at: str
    """UTC, ISO 8601."""
    facts: dict[str, Any]
    """What belongs to the event, as JSON."""


class Ledger:
    """The records in one folder.

    Args:
        folder: `settings.state / "hcp"`; made at the first record.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / RECORDS

    def document(self, rewrite: str) -> Path:
        """Where the document of a rewrite that needs a review is kept."""
        return self.folder / "documents" / f"{rewrite}.toml"

    def records(self) -> list[Record]:
        """All records, the oldest first.

        Raises:
            DigestError: a line is not what the next one says it was, or no record.
        """
        return [record for record, _ in self._read()]

    def find(self, rewrite: str, event: Event) -> Record | None:
        """The latest record of an event of one rewrite."""
        found = (r for r in reversed(self.records()) if (r.id, r.event) == (rewrite, event))
        return next(found, None)

    def waiting(self) -> list[Record]:
        """The rewrites that need a review and have no approval, the oldest first."""
        records = self.records()
        approved = {record.id for record in records if record.event == "approved"}
        return [r for r in records if r.event == "needs-review" and r.id not in approved]

    def append(self, event: Event, rewrite: str, **facts: Any) -> Record:
        """Adds a record, which is on the disk when this returns."""
        record = Record(event, rewrite, datetime.now(UTC).isoformat(timespec="seconds"), facts)
        with storage_errors(self.file), self._locked() as file:
            previous = [FIRST, *(digest for _, digest in self._read())][-1]
            # Whoever died while writing left a line without an end, which nobody was told of.
            os.ftruncate(file, len(_whole(self.file.read_bytes())))
            value = {"previous": previous, "at": record.at, "event": event, "id": rewrite}
            os.write(file, (canonical_json(value | {"facts": facts}) + "\n").encode())
            os.fsync(file)
        return record

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _read(self) -> Iterator[tuple[Record, str]]:
        """Each record with the digest of its line."""
        data = _whole(self.file.read_bytes()) if self.file.exists() else b""
        previous = FIRST
        for number, line in enumerate(data.splitlines(), start=1):
            value = _value(line)
            if value is None or value["previous"] != previous:
                raise DigestError(
                    "is not what was recorded",
                    where=f"{self.file}, line {number} or the one before it",
                    mend="find out who changed the file",
                )
            previous = digest_bytes(line)
            yield Record(value["event"], value["id"], value["at"], value["facts"]), previous


def _whole(data: bytes) -> bytes:
    """The lines that have an end."""
    return data[: data.rfind(b"\n") + 1]


def _value(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and set(value) == _KEYS else None
