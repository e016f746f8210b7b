"""`macaron experience`: what the store holds, bringing chat files into it, forgetting."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from macaron.cli.forget import forget

if TYPE_CHECKING:
    from macaron.experience.importer import ImportReport
    from macaron.experience.store import Stats

app = typer.Typer(help="Look at the experience, import and forget some.", no_args_is_help=True)
app.command("forget")(forget)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@app.command()
def stats(json: Json = False) -> None:
    """Show what the experience store holds: turns by source, specialist and day."""
    from macaron.cli.output import print_facts, print_json
    from macaron.experience.store import ExperienceStore
    from macaron.settings import load_settings

    settings = load_settings()
    found = ExperienceStore(settings.experience).stats()
    if json:
        print_json(found.to_json())
    else:
        print_facts(_stats_facts(found, settings.experience))


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Chat JSONL, one conversation a line (UTF-8)."),
    ],
    json: Json = False,
) -> None:
    """Import a chat file.

    Each line holds messages in OpenAI's form, and optionally a rating. Bad lines go to a
    quarantine file with their number and reason; importing a file again adds nothing.
    """
    from macaron.cli.output import print_facts, print_json
    from macaron.errors import ExperienceError
    from macaron.experience.importer import import_file
    from macaron.experience.store import ExperienceStore
    from macaron.files import digest_bytes
    from macaron.settings import load_settings

    settings = load_settings()
    # Files of one name in two folders have two quarantines.
    name = f"{file.stem}-{digest_bytes(str(file.resolve()).encode())[:8]}.jsonl"
    quarantine = settings.state / "quarantine" / name
    report = import_file(file, ExperienceStore(settings.experience), quarantine)
    if json:
        print_json(report.to_json())
    else:
        print_facts(_import_facts(report))
    if report.quarantined == report.lines:
        raise ExperienceError(
            "every line is bad", where=str(file), mend=f"see the reasons in {report.quarantine}"
        )


def _stats_facts(stats: "Stats", folder: Path) -> list[tuple[str, str]]:
    facts = [("turns", f"{stats.rows:,}")]
    if stats.rows:
        days = sorted(stats.by_day)
        facts += [
            ("by source", _counts(stats.by_source)),
            ("by specialist", _counts(stats.by_specialist)),
            ("days", days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"),
            ("with feedback", f"{stats.with_feedback:,}"),
            ("with reward", f"{stats.with_reward:,}"),
        ]
    size = f"{stats.files:,} files, {stats.bytes / 1e6:.1f} MB"
    return [*facts, ("stored in", f"{folder} ({size})")]


def _import_facts(report: "ImportReport") -> list[tuple[str, str]]:
    facts = [
        ("lines", f"{report.lines:,}"),
        ("new turns", f"{report.rows:,} ({_counts(report.by_specialist) or 'none'})"),
        ("new feedback", f"{report.updated:,}"),
        ("known before", f"{report.duplicates:,}"),
        ("quarantined", f"{report.quarantined:,}"),
    ]
    if report.redacted:
        facts.append(("redacted", _counts(report.redacted)))
    if report.quarantine:
        facts += [("reasons", _counts(report.reasons)), ("look at", report.quarantine)]
    return facts


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
