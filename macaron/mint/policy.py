"""The policy record: the mutable pointer from a name to an adapter revision.

Every pointer that ever was stays in the history, which is only appended to.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from macaron.errors import DigestError
from macaron.files import canonical_json, read_json, read_jsonl, storage_errors, write_json

POINTERS = "policies.json"
HISTORY = "history.jsonl"


class PolicyRecord:
    """Names and the revisions they point to, in a folder; safe between processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> dict[str, str]:
        """Name -> revision."""
        path = self.folder / POINTERS
        return dict(read_json(path)) if path.exists() else {}

    def get(self, name: str) -> str:
        """The revision that the name points to.

        Raises:
            DigestError: it points to none.
        """
        pointers = self.all()
        if name not in pointers:
            raise DigestError(f"no policy {name!r}", where=str(self.folder / POINTERS))
        return pointers[name]

    def point(self, name: str, revision: str, reason: str) -> bool:
        """Points the name to the revision; False when it already did.

        The history is written first: a crash between the two leaves a line more, never one less.

        Args:
            name: such as "L1".
            revision: digest of an adapter.
            reason: such as the id of the pair that was promoted.
        """
        with storage_errors(self.folder), self._locked():
            pointers = self.all()
            if pointers.get(name) == revision:
                return False
            self._append(
                {
                    "at": datetime.now(UTC).isoformat(timespec="seconds"),
                    "name": name,
                    "before": pointers.get(name),
                    "revision": revision,
                    "reason": reason,
                }
            )
            write_json(self.folder / POINTERS, {**pointers, name: revision})
            return True

    def history(self, name: str | None = None) -> list[dict[str, Any]]:
        """Every move, oldest first; of one name, or of all."""
        path = self.folder / HISTORY
        moves = read_jsonl(path) if path.exists() else []
        return [move for move in moves if name in (None, move["name"])]

    def _append(self, move: dict[str, Any]) -> None:
        with (self.folder / HISTORY).open("ab") as file:
            file.write(canonical_json(move).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
