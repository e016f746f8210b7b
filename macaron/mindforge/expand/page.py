"""The expansion's part of a night's report, from its summary."""

from collections.abc import Mapping, Sequence
from typing import Any


def section(summary: Mapping[str, Any]) -> str:
    """The summary as Markdown."""
    if summary.get("left_out"):
        return "Left out: the profile gives it no attempts."
    causes = ", ".join(f"{count} {cause}" for cause, count in sorted(summary["causes"].items()))
    spent = ", ".join(f"{count} {phase}" for phase, count in summary["spent"].items())
    lines = [
        f"{summary['failures']} failures of the champion in practice ({causes or 'none'}); "
        f"{summary['covered']} covered by some harness. Attempts: {spent}. "
        f"The search ended by: {summary['stopped']}.",
    ]
    if summary["unseen"]:
        head = ("specialist", "n", "old %", "new %", "difference [95 %]", "p", "accepted")
        lines.append(_table(head, [_row(row, summary) for row in summary["unseen"]]))
    else:
        lines.append("No rewrite did better in practice.")
    return "\n\n".join(lines)


def _row(row: Mapping[str, Any], summary: Mapping[str, Any]) -> tuple[str, ...]:
    made = {one["id"]: one["edits"] for one in summary["accepted"]}
    edits = made.get(row["candidate"], {})
    what = "; ".join(f"`{path} = {value}`".replace("|", "\\|") for path, value in edits.items())
    return (
        row["specialist"],
        str(row["n"]),
        f"{100 * row['old']:.1f}",
        f"{100 * row['new']:.1f}",
        f"{100 * row['difference']:+.1f} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]",
        f"{row['p']:.2g}",
        what or "no",
    )


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
