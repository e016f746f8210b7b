"""Report: what a night did, as a table, a page and a plot; every number is a verdict's."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macaron.files import atomic_path, read_json, write_atomic
from macaron.hcp.document import load_hcp
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle, now
from macaron.mindforge.expand.page import section
from macaron.mindforge.stores import tracking
from macaron.pair import HCP_FILE

if TYPE_CHECKING:
    from rich.console import Group


@dataclass
class Night:
    """Everything a judged cycle left behind."""

    cycle: Cycle
    collected: Artifact
    good: Artifact
    job: Artifact
    trained: Artifact
    verdict: Artifact
    record: Artifact
    promoted: Artifact
    seconds: dict[str, float]
    """Step -> wall seconds in this process; a step that was cached is absent."""

    def __post_init__(self) -> None:
        self.ended = now()

    @cached_property
    def judged(self) -> dict[str, Any]:
        """The verdict."""
        value: dict[str, Any] = read_json(Path(self.verdict.path))
        return value

    @property
    def tag(self) -> str:
        """The git tag of the challenger's record."""
        return str(self.record.facts["tag"])


HEAD = ("suite", "champion", "challenger", "difference", "95 % interval", "p", "gate")


def rows(verdict: dict[str, Any]) -> list[tuple[str, ...]]:
    """The verdict's rows as text, in percent and points."""
    return [
        (
            row["suite"],
            _percent(row["champion"]),
            _percent(row["challenger"]),
            _points(row["difference"]),
            f"{_points(row['low'])} to {_points(row['high'])}",
            _p(row["p"] if row["p_holm"] is None else row["p_holm"]),
            _gate(row),
        )
        for row in verdict["rows"]
    ]


def _gate(row: dict[str, Any]) -> str:
    if row["gate"] == "fail":
        return "may be worse" if row["measured"] else "unmeasured"
    return "gain" if row["improved"] else "not worse"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _points(difference: float | None) -> str:
    return "-" if difference is None else f"{100 * difference:+.1f}"


def _p(p: float) -> str:
    return "< 1e-6" if p < 1e-6 else f"{p:.2g}"


def table(night: Night) -> "Group":
    """The verdict for a terminal, and where to look next."""
    from rich.console import Group
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in HEAD:
        shown.add_column(column, justify="left" if column in ("suite", "gate") else "right")
    colours = {"gain": "green", "may be worse": "red", "unmeasured": "red", "not worse": "default"}
    for row in rows(night.judged):
        shown.add_row(*row[:-1], f"[{colours[row[-1]]}]{row[-1]}[/]")
    decision = night.verdict.facts["decision"]
    colour = "green" if decision == "promoted" else "yellow"
    lines = [f"[bold {colour}]{decision}[/]: {_sentence(night)}", ""]
    if decision == "rejected":
        lines[1:1] = [f"  because {reason}" for reason in night.judged["reasons"]]
    return Group("", shown, "", *lines, *(f"  {what:<9} {how}" for what, how in _next(night)))


def _sentence(night: Night) -> str:
    challenger = night.trained.facts["challenger"]
    if night.verdict.facts["decision"] == "promoted":
        generation = night.trained.facts["generation"]
        return f"pair {challenger}, generation {generation}, is the champion"
    return f"pair {challenger} is kept, {night.cycle.inputs.champion} stays the champion"


def _command() -> str:
    """How this person can call the command line."""
    own = Path(sys.executable).with_name("macaron")
    return "macaron" if shutil.which("macaron") == str(own) else os.path.relpath(own)


def _next(night: Night) -> list[tuple[str, str]]:
    root = Path(night.cycle.root)
    report = (night.cycle.dir / "report.md").relative_to(root)
    return [
        ("report", str(report)),
        ("data docs", str(Path(night.good.facts["docs"]).relative_to(root))),
        ("compare", "make ui   (MLflow, http://127.0.0.1:5000)"),
        ("lineage", f"git log --graph --oneline {night.tag}"),
        ("status", f"{_command()} status"),
    ]


def write(night: Night) -> Path:
    """The page `report.md` with its plot `suites.png`, in the cycle's folder."""
    plot(night.judged, night.cycle.dir / "suites.png")
    return write_atomic(night.cycle.dir / "report.md", page(night))


def publish(night: Night, report: Path) -> None:
    """Puts the report and the documents beside the cycle's numbers in MLflow, and ends its runs."""
    cycle = night.cycle
    registry = tracking(cycle.settings(), cycle.inputs.model_name)
    run = night.record.facts["run"]
    hcp = _harness(night)
    documents = [report, report.with_name("suites.png"), Path(night.verdict.path)]
    registry.log_files(run, [*documents, Path(cycle.inputs.contract), hcp])
    for key in night.trained.facts["summaries"]:
        registry.finish(registry.specialist_run(run, key))
    registry.finish(run)


def page(night: Night) -> str:
    """The report as Markdown."""
    inputs, judged = night.cycle.inputs, night.judged
    parts = [
        f"# Cycle {night.cycle.id}: {judged['decision']}",
        f"{_sentence(night).capitalize()}.",
        _table(HEAD, rows(judged)),
        "![Success by suite](suites.png)",
        "## Why\n\n" + "\n".join(f"- {reason}" for reason in judged["reasons"]),
        "## What was learned from\n\n" + _experience(night),
        "## What another harness makes of it\n\n" + _expansion(night),
        "## What it did\n\n" + _selection(night.job.facts),
        "## Training\n\n" + _training(night.trained.facts["summaries"]),
        "## Lineage\n\n"
        + _table(
            ("what", "name"),
            [
                ("base", inputs.base_digest),
                ("contract", f"{judged['contract']} {judged['contract_digest']}"),
                ("HCP", inputs.hcp_digest),
                ("challenger's HCP", load_hcp(_harness(night)).digest),
                ("champion before", inputs.champion),
                ("challenger", night.trained.facts["challenger"]),
                ("record", f"{night.tag} at {night.record.facts['commit']}"),
                ("MLflow version", str(night.record.facts["version"])),
                ("seed", str(inputs.seed)),
            ],
        ),
        "## Where the time went\n\n"
        + _table(("step", "seconds"), [(n, f"{s:.1f}") for n, s in night.seconds.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def _harness(night: Night) -> Path:
    challenger = str(night.trained.facts["challenger"])
    return night.cycle.settings().pairs / challenger / HCP_FILE


def _expansion(night: Night) -> str:
    return section(read_json(night.cycle.dir / "expansion" / "expansion.json"))


def _experience(night: Night) -> str:
    collected, good = night.collected.facts, night.good.facts
    return _table(
        ("source", "rows"),
        [
            ("turns imported by this cycle", str(collected["imported"])),
            ("lines that the import quarantined", str(collected["quarantined"])),
            ("served and imported turns not learned from before", str(collected["waiting"])),
            ("rollouts of the champion", str(collected["rollouts"])),
            ("rows that passed validation", str(good["good"])),
            ("rows quarantined by validation", str(good["quarantined"])),
            ("rows made under another HCP", str(good["other_hcp"])),
            ("rows refused for that", str(good["refused"])),
        ],
    )


def _training(summaries: dict[str, dict[str, Any]]) -> str:
    names = [name for name in next(iter(summaries.values())) if name != "specialist"]
    lines = [
        (key, *(_number(summary[name]) for name in names)) for key, summary in summaries.items()
    ]
    return _table(("specialist", *(n.replace("_", " ") for n in names)), lines)


def _selection(facts: dict[str, Any]) -> str:
    """Which turns became examples, which were dropped and why, which kinds were steered to."""
    origins = list(facts["by_origin"])
    examples = [
        (key, *(str(counts.get(origin, 0)) for origin in origins))
        for key, counts in facts["by_specialist"].items()
    ]
    dropped = ", ".join(f"{count} {reason}" for reason, count in facts["dropped"].items())
    kinds = [
        (environment, kind, str(rate["rows"]), str(rate["failures"]), f"{rate['rate']:.2f}")
        for environment, rates in facts["kinds"].items()
        for kind, rate in rates.items()
    ]
    return "\n\n".join(
        [
            "Examples to imitate, by specialist and origin:",
            _table(("specialist", *origins), examples),
            f"Dropped: {dropped or 'none'}.",
            "Failures steer which kinds of task are drawn; the rate is smoothed:",
            _table(("environment", "kind", "rows", "failures", "rate"), kinds),
        ]
    )


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plot(verdict: dict[str, Any], path: Path) -> Path:
    """Success of both pairs by suite, with Wilson intervals, as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from macaron.contract.statistics import wilson_interval

    measured = [row for row in verdict["rows"] if row["measured"]]
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for offset, side, colour in ((-0.2, "champion", "#9aa5b1"), (0.2, "challenger", "#2b6cb0")):
        for place, row in enumerate(measured):
            share = row[side]
            low, high = wilson_interval(round(share * row["n"]), row["n"], 0.95)
            axes.bar(place + offset, 100 * share, 0.38, color=colour, label=side)
            axes.vlines(place + offset, 100 * low, 100 * high, color="black", linewidth=1)
    axes.set_xticks(range(len(measured)), [row["suite"] for row in measured])
    axes.set_ylabel("success on sealed items, %")
    axes.set_ylim(0, 105)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axes.legend(
        unique.values(),
        unique.keys(),
        frameon=False,
        ncols=2,
        loc="lower left",
        bbox_to_anchor=(0, 1),
    )
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
    plt.close(figure)
    return path
