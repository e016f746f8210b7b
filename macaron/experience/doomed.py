"""Telling the lines that belong to sessions which are to be forgotten from all others."""

import json
from pathlib import Path

from macaron.experience.segment import parse_segment


class Doomed:
    """Sessions, and their turns as far as they are known.

    Args:
        sessions: ids.
        turns: ids that are known already; those of sessions forgotten before as well.
    """

    def __init__(self, sessions: frozenset[str], turns: set[str]) -> None:
        self.sessions, self.turns = sessions, set(turns)
        self._quoted: list[str] | None = None

    def look(self, path: Path) -> None:
        """Takes the ids of the turns that a segment holds."""
        if path.exists():
            rows = parse_segment(path.read_bytes()).turns.values()
            self.turns |= {row.id for row in rows if row.session in self.sessions}
            self._quoted = None

    def line(self, line: bytes) -> bool:
        """Whether a log's line is of them."""
        found = parse_segment(line + b"\n")
        if found.turns or found.feedback:
            rows, feedback = found.turns.values(), found.feedback
            return any(row.session in self.sessions for row in rows) or any(
                turn in self.turns for turn, _ in feedback
            )
        return self.text(line.decode(errors="backslashreplace"))

    def text(self, text: str) -> bool:
        """Whether a line that is no row names one of them; what it names, it may be about."""
        if self._quoted is None:
            ids = sorted(self.sessions | self.turns)
            self._quoted = [form for id in ids for form in (json.dumps(id), repr(id))]
        return any(form in text for form in self._quoted)
