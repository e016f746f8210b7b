"""`macaron hcp`: the harness's document: show, check, compare and change it, approve rewrites."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from macaron.hcp.document import HCP
    from macaron.hcp.ledger import Ledger, Record
    from macaron.settings import Settings

app = typer.Typer(
    help="Look at the harness and change it: show, validate, diff, set, approve.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
SOURCE = "A TOML file, or a pair: id, the beginning of one, champion, previous or challenger."
FIELD = "Path of a field, like specialists.L1.system or hooks.0.text."
File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The document (TOML).", show_default=False)
]


@app.command()
def show(
    source: Annotated[
        str, typer.Argument(metavar="[PAIR|FILE]", help=SOURCE, show_default=False)
    ] = "",
    path: Annotated[str, typer.Argument(metavar="[PATH]", help=FIELD, show_default=False)] = "",
    defaults: Annotated[bool, typer.Option("--defaults", help="Show defaults as well.")] = False,
    json: Json = False,
) -> None:
    """Show a harness, or one field of it.

    Without an argument: the champion's, or that of the settings where there is no champion yet.
    """
    from macaron.cli.output import print_json
    from macaron.hcp.paths import get, values_of
    from macaron.hcp.text import dump_hcp
    from macaron.settings import load_settings

    hcp = _load(load_settings(), source)
    if path:
        value = get(hcp, path)
        print(value) if isinstance(value, str) and not json else print_json(value)
    elif json:
        print_json({"digest": hcp.digest, "hcp": values_of(hcp)})
    else:
        print(f"# HCP {hcp.digest}\n{dump_hcp(hcp, defaults)}", end="")


@app.command()
def validate(file: File, json: Json = False) -> None:
    """Check a file as a cycle would. Exit code 2, and one line, where it cannot be used."""
    from macaron.cli.output import amount, print_facts, print_json
    from macaron.hcp.document import read_hcp

    loaded = read_hcp(file)
    hcp = loaded.hcp
    if json:
        print_json({"digest": hcp.digest, "migrations": loaded.migrations})
        return
    counts = {
        "specialist": len(hcp.specialists),
        "tool": len(hcp.tools),
        "skill": len(hcp.skills),
        "MCP server": len(hcp.mcp),
        "hook": len(hcp.hooks),
    }
    held = ", ".join(amount(count, name) for name, count in counts.items() if count)
    print_facts(
        [
            ("HCP", f"{hcp.version}, {held}"),
            ("digest", hcp.digest),
            *(("migrated", step) for step in loaded.migrations),
        ]
    )


@app.command()
def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=SOURCE, show_default=False)],
    new: Annotated[str, typer.Argument(metavar="NEW", help=SOURCE, show_default=False)],
    json: Json = False,
) -> None:
    """Show field by field in what two harnesses differ: files, pairs, or one of each."""
    from macaron.cli.output import print_json, print_table
    from macaron.hcp import changes
    from macaron.settings import load_settings

    settings = load_settings()
    found = changes.diff(_load(settings, old), _load(settings, new))
    if json:
        print_json([change.to_json() for change in found])
    elif not found:
        print("the same harness")
    else:
        rows = [[c.field, changes.shown(c.old), changes.shown(c.new)] for c in found]
        print_table(("field", "old", "new"), rows)


# A negative number is a value, not an option.
@app.command("set", context_settings={"ignore_unknown_options": True})
def set_(
    file: File,
    path: Annotated[str, typer.Argument(metavar="PATH", help=FIELD, show_default=False)],
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE",
            help='As TOML writes it: 0.5, true, ["a", "b"], "text"; bare words for a text.',
            show_default=False,
        ),
    ],
) -> None:
    """Change one field of a file; comments stay, and so does a file that would become invalid."""
    from macaron.errors import ConfigError
    from macaron.hcp.edit import set_field
    from macaron.settings import load_settings

    if file.resolve().is_relative_to(load_settings().pairs.resolve()):
        raise ConfigError("a pair never changes", where=str(file), mend="change a copy of the file")
    edit = set_field(file, path, value)
    for step in edit.migrations:
        print(f"migrated {step}")
    for change in edit.changes:
        print(change)
    print(f"HCP {edit.hcp.digest[:12]}" if edit.changes else "it has that value")


@app.command()
def approve(
    rewrite: Annotated[
        str,
        typer.Argument(
            metavar="[ID]", help="Id of a rewrite, or its beginning.", show_default=False
        ),
    ] = "",
    who: Annotated[
        str, typer.Option(metavar="NAME", help="Who approves. Default: the system's user.")
    ] = "",
    why: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for the record.")] = "",
    json: Json = False,
) -> None:
    """Let a rewrite pass that the loop proposed and that needs a person's review.

    Without an ID: list those that wait. Who approved, and when, is recorded.
    """
    from getpass import getuser

    from macaron.cli.output import print_json
    from macaron.hcp import approval
    from macaron.hcp.ledger import Ledger
    from macaron.settings import load_settings

    ledger = Ledger(load_settings().state / "hcp")
    if not rewrite:
        waiting = ledger.waiting()
        if json:
            print_json([{"id": record.id, "at": record.at, **record.facts} for record in waiting])
        else:
            _list(ledger, waiting)
        return
    record = approval.approve(ledger, rewrite, who or getuser(), why)
    if json:
        print_json({"id": record.id, "at": record.at, **record.facts})
    else:
        print(f"{record.id} is approved by {record.facts['who']} at {record.at}")


def _list(ledger: "Ledger", waiting: "list[Record]") -> None:
    from macaron.cli.output import print_facts

    if not waiting:
        print("nothing waits")
    for record in waiting:
        facts = record.facts
        print(record.id)
        print_facts(
            [
                ("  proposed", record.at),
                *(("  because", reason) for reason in facts["reasons"]),
                *(("  loop says", facts["why"]) for _ in facts["why"][:1]),
                *(("  changes", _line(change)) for change in facts["changes"]),
                ("  document", str(ledger.document(record.id))),
            ]
        )


def _line(change: dict[str, Any]) -> str:
    from macaron.hcp.changes import ABSENT, shown

    old, new = (shown(change.get(side, ABSENT)) for side in ("old", "new"))
    return f"{change['path']}: {old} -> {new}"


def _load(settings: "Settings", source: str) -> "HCP":
    """The harness of a file or a pair.

    Raises:
        ConfigError: the file cannot be used.
        RegistryError: there is no such pair.
    """
    from macaron.cli.project import holder, resolve, versions
    from macaron.hcp.document import load_hcp
    from macaron.mindforge.stores import pair_store
    from macaron.pair import HCP_FILE

    if source.endswith(".toml") or Path(source).is_file():
        return load_hcp(Path(source))
    found = versions(settings)
    if not source and holder(found, "champion") is None:
        return load_hcp(settings.path(settings.hcp))
    store = pair_store(settings)
    pair = store.get(resolve(source or "champion", store, found))
    return load_hcp(store.folder(pair.id) / HCP_FILE)
