"""The routing benchmark's report as Markdown: a table for each thing that was asked."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from macaron.environments.base import Task
from macaron.environments.routing_report import (
    Routed,
    accuracy,
    calibration_error,
    compliance,
    confusion,
    reliability,
)

Results = Mapping[int, Mapping[str, Sequence[Routed]]]
"""Seed -> part and language -> turns."""


def page(results: Results, labels: Sequence[str]) -> str:
    """The whole report."""
    lines: list[str] = []
    for seed, parts in results.items():
        english = parts["held en"]
        lines += [f"## Seed {seed}", "", *_parts(parts)]
        for title, by in _SLICES.items():
            lines += ["", f"Held-out English by {title}:", "", *_shares(english, by)]
        lines += ["", "Held-out English, rows the right label, columns the choice:", ""]
        lines += _confusion(english, labels)
        lines += ["", f"Calibration, expected error {calibration_error(english):.4f}:", ""]
        lines += _calibration(english)
        every = [row for rows in parts.values() for row in rows]
        kept = compliance(every, labels)
        lines += ["", f"A canonical label in {kept.right} of {kept.n} turns of all parts.", ""]
    return "\n".join(lines)


def _slice(task: Task) -> str:
    return str(task.data["slice"])


def _kind(task: Task) -> str:
    return task.kind


_SLICES: Mapping[str, Callable[[Task], str]] = {"what is new": _slice, "kind": _kind}


def _parts(parts: Mapping[str, Sequence[Routed]]) -> Iterator[str]:
    yield from ("| part | turns | right % | 95 % |", "|---|---|---|---|")
    for name, rows in parts.items():
        share = accuracy(rows)["all"]
        interval = " to ".join(f"{100 * edge:.2f}" for edge in share.interval())
        yield f"| {name} | {share.n} | {100 * share.value:.2f} | {interval} |"


def _shares(rows: Sequence[Routed], by: Callable[[Task], str]) -> Iterator[str]:
    yield from ("| | turns | right % |", "|---|---|---|")
    for name, share in accuracy(rows, by).items():
        yield f"| {name} | {share.n} | {100 * share.value:.2f} |"


def _confusion(rows: Sequence[Routed], labels: Sequence[str]) -> Iterator[str]:
    yield f"| | {' | '.join(labels)} |"
    yield "|---" * (len(labels) + 1) + "|"
    for label, counts in zip(labels, confusion(rows, labels), strict=True):
        yield f"| {label} | {' | '.join(map(str, counts))} |"


def _calibration(rows: Sequence[Routed]) -> Iterator[str]:
    yield from ("| confidence | turns | mean confidence % | right % |", "|---|---|---|---|")
    for part in reliability(rows):
        middle = f"{100 * part.confidence:.1f} | {100 * part.accuracy:.1f}"
        yield f"| {part.low:.1f} to {part.high:.1f} | {part.n} | {middle} |"
