"""`macaron pool`: the tools that the model wrote, what they are, and taking one away."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from macaron.harness.pool.live import LivePool
    from macaron.pool.state import Entry

app = typer.Typer(help="Look at the tools that the model wrote.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Of = Annotated[
    str,
    typer.Option(
        "--pair",
        metavar="PAIR",
        help="Whose pool: an id, the beginning of one, or champion, previous or challenger.",
    ),
]
Tool = Annotated[str, typer.Argument(metavar="TOOL", help="Name, or the beginning of a digest.")]


@app.command("list")
def list_tools(pair: Of = "champion", json: Json = False) -> None:
    """List candidates and tools: what can be called now, what failed, what was demoted and why."""
    from macaron.cli.output import print_json, print_table

    entries = _open(pair).state().entries.values()
    if json:
        print_json([_summary(entry) for entry in entries])
    elif not entries:
        print("no tool was saved yet")
    else:
        columns = ("tool", "digest", "status", "reason")
        rows = [(e.name, e.digest[:12], e.status, e.reason) for e in entries]
        print_table(columns, rows)


@app.command()
def show(tool: Tool, pair: Of = "champion", json: Json = False) -> None:
    """Show one tool: its source, who saved it, its trials and uses."""
    from macaron.cli.output import print_facts, print_json, print_table

    pool = _open(pair)
    entry = _find(pool, tool)
    candidate = pool.tool(entry.digest)
    if json:
        content = {"tool": candidate.to_json(), "events": entry.events}
        print_json(_summary(entry) | content)
        return
    print_facts(
        [
            ("tool", entry.name),
            ("digest", entry.digest),
            ("status", entry.status),
            *((("reason", entry.reason),) if entry.reason else ()),
            ("saved by", ", ".join(entry.saved_by)),
            ("does", candidate.description),
        ]
    )
    print(f"\n{candidate.source}")
    print_table(("at", "event", "pair", "what"), [_row(event, entry) for event in entry.events])


@app.command()
def demote(
    tool: Tool,
    why: Annotated[str, typer.Option(metavar="TEXT", help="The reason, kept for ever.")],
    pair: Of = "champion",
) -> None:
    """Take a tool away: no session that begins from now on can call it, and it never comes back."""
    from macaron.cli.project import person
    from macaron.errors import RegistryError
    from macaron.harness.pool.judge import demote_by_hand
    from macaron.harness.pool.live import Origin

    pool = _open(pair)
    entry = _find(pool, tool)
    if entry.status == "demoted":
        raise RegistryError(f"is demoted already: {entry.reason}", where=entry.name)
    demote_by_hand(pool, entry.digest, f"by {person()}: {why}", Origin("by hand"))
    print(f"{entry.name} ({entry.digest[:12]}) is demoted")


def _open(pair: str) -> "LivePool":
    from macaron.cli.project import resolve, versions
    from macaron.mindforge.stores import live_pool, pair_store
    from macaron.settings import load_settings

    settings = load_settings()
    return live_pool(settings, resolve(pair, pair_store(settings), versions(settings)))


def _find(pool: "LivePool", tool: str) -> "Entry":
    """By name what can be called, or was saved last; else by digest."""
    from macaron.errors import RegistryError

    state = pool.state()
    named = state.of_name(tool)
    if named:
        return state.entries[state.tools.get(tool, named[-1].digest)]
    found = [e for digest, e in state.entries.items() if tool and digest.startswith(tool)]
    if len(found) == 1:
        return found[0]
    what = "names several tools" if found else "no such tool"
    raise RegistryError(what, where=tool, mend="`macaron pool list` shows those there are")


def _summary(entry: "Entry") -> dict[str, Any]:
    return {
        "tool": entry.name,
        "digest": entry.digest,
        "status": entry.status,
        "reason": entry.reason,
        "saved_by": entry.saved_by,
    }


def _row(event: Any, entry: "Entry") -> tuple[str, str, str, str]:
    return (event["at"][:19], event["event"], event["pair"][:8], _what(event, entry))


def _what(event: Any, entry: "Entry") -> str:
    """An event's facts in words."""
    if event["event"] in ("tried", "retried"):
        return f"{event['passed']} of {event['trials']} passed, {event['needed']} needed"
    if event["event"] == "used":
        use = event["tools"][entry.digest]
        return f"{use['calls']} calls, {use['raised']} raised"
    session = f"session {event['session']}"
    return event["reason"] if event["event"] == "demoted" else session
