"""What has been forgotten: ids of sessions and turns, so that nothing of them comes in any more.

A server may still hold a turn of a forgotten session, and a client may still send feedback on one.
The ids are random and say nothing of anybody.
"""

import json
import os
from collections.abc import Collection
from pathlib import Path

from macaron.experience.store import sync_folder
from macaron.files import read_lines

FILE = "forgotten.jsonl"


class Forgotten:
    """The ids in one folder; read and written under the log's append lock."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.sessions: set[str] = set()
        self.turns: set[str] = set()
        self._seen: tuple[int, int] | None = None

    def refresh(self) -> None:
        """Reads what others have added."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return
        seen = (stat.st_mtime_ns, stat.st_size)
        if seen == self._seen:
            return
        for line in read_lines(self.path):
            self._take(line)
        self._seen = seen

    def add(self, sessions: Collection[str], turns: Collection[str]) -> None:
        """Adds ids; on return they are on the disk."""
        self.refresh()
        new = {"sessions": sorted(set(sessions) - self.sessions)}
        new["turns"] = sorted(set(turns) - self.turns)
        if not any(new.values()):
            return
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # The first break ends a line that a killed process left open.
            os.write(handle, f"\n{json.dumps(new)}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_folder(self.path.parent)
        self.refresh()

    def _take(self, line: str) -> None:
        try:
            found = json.loads(line) if line else {}
        except ValueError:
            # Torn: its forgetting did not go on, and is run again.
            return
        self.sessions |= set(found.get("sessions", ()))
        self.turns |= set(found.get("turns", ()))
