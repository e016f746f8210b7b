"""What an expansion leaves behind: its attempts, candidates and causes, and what it came to.

Everything in the summary can be counted again from the lines beside it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from macaron.files import write_json, write_jsonl
from macaron.hcp.document import HCP
from macaron.mindforge.expand.attempts import Attempt, Batches
from macaron.mindforge.expand.candidate import Candidate
from macaron.mindforge.expand.finals import Row
from macaron.mindforge.expand.search import Found, by_cause


@dataclass
class Expansion:
    """One expansion from its first attempt to its harness."""

    hcp: HCP
    """With the accepted winners' edits; as it was where none was accepted."""
    accepted: list[Candidate]
    rows: list[Row]
    """Every winner on unseen tasks."""
    failures: int
    found: Found
    attempts: Sequence[Attempt]
    spent: dict[str, int] = field(default_factory=dict)
    """Phase -> attempts that were played for it."""

    def summary(self) -> dict[str, Any]:
        """What it came to, as JSON values."""
        found = self.found
        return {
            "failures": self.failures,
            "causes": by_cause(found.attributions),
            "covered": len(found.covered),
            "stopped": found.stopped,
            "spent": self.spent,
            "proposals": dict(sorted(found.proposals.items())),
            "unseen": [row.to_json() for row in self.rows],
            "accepted": [one.to_json() for one in self.accepted],
            "hcp": self.hcp.digest,
        }


def spent(batches: Batches) -> dict[str, int]:
    """Phase -> attempts that were played for it."""
    phases = dict.fromkeys(attempt.phase for attempt in batches.attempts)
    return {phase: batches.spent(phase) for phase in phases}


def curve(found: Found, attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """One row an attempt in its order, with what was covered after it."""
    covered: set[str] = set()
    rows = []
    for number, attempt in enumerate(attempts):
        searching = attempt.phase in ("widened", "search")
        new = searching and attempt.passed and attempt.task not in covered
        covered |= {attempt.task} if new else set()
        rows.append({"n": number, **asdict(attempt), "new": new, "covered": len(covered)})
    return rows


def write(expansion: Expansion, folder: Path) -> Path:
    """Writes all of it; returns the summary's file."""
    found = expansion.found
    write_jsonl(folder / "attempts.jsonl", curve(found, expansion.attempts))
    made = [one for ones in found.candidates.values() for one in ones]
    write_jsonl(folder / "candidates.jsonl", [c.to_json() for c in [*made, *found.kept_back]])
    causes = [asdict(one) for one in found.attributions.values()]
    write_jsonl(folder / "attributions.jsonl", causes)
    return write_json(folder / "expansion.json", expansion.summary())
