"""`macaron experience forget`: one user's data, or some sessions, deleted everywhere."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from macaron.serve.forgetting import Forgetting

Users = Annotated[
    list[str] | None,
    typer.Option("--user", metavar="ID", help="An end user, as the clients name them."),
]
Sessions = Annotated[
    list[str] | None,
    typer.Option("--session", metavar="ID", help="A session: the id of its first turn."),
]
Days = Annotated[
    float | None,
    typer.Option("--older-than", metavar="DAYS", min=0, help="Sessions last heard of before."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count; delete nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def forget(
    user: Users = None,
    session: Sessions = None,
    older_than: Days = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Delete what was kept of users, of sessions, or of old sessions; may be repeated.

    Deleted are the turns that sessions go on from, the experience and what was refused of it. What
    was learned from already is listed, not changed. Safe beside a running server.
    """
    import asyncio
    from datetime import UTC, datetime, timedelta

    from macaron.cli.output import print_facts, print_json
    from macaron.errors import ConfigError
    from macaron.serve.forgetting import forget as forget_all
    from macaron.settings import load_settings

    if not user and not session and older_than is None:
        raise ConfigError("nobody is named", mend="give --user, --session or --older-than")
    before = None if older_than is None else datetime.now(UTC) - timedelta(days=older_than)
    done = asyncio.run(forget_all(load_settings(), user or (), session or (), before, dry_run))
    if json:
        print_json(done.to_json())
    else:
        print_facts(_facts(done, dry_run))


def _facts(done: "Forgetting", dry_run: bool) -> list[tuple[str, str]]:
    experience = done.experience
    would = "would go: " if dry_run else "deleted: "
    facts = [
        ("sessions", f"{experience.sessions:,}"),
        ("timeline", f"{would}{done.timeline_turns:,} turns"),
        ("turn log", f"{would}{experience.log_lines:,} lines"),
        ("experience", f"{would}{experience.stored_turns:,} turns"),
        ("quarantine", f"{would}{experience.quarantined:,} lines"),
    ]
    for trained in done.beyond:
        pair = f"pair {trained.pair} was trained on them" if trained.pair else "no pair came of it"
        facts.append(("left", f"cycle {trained.cycle}, {trained.turns:,} turns; {pair}"))
    return facts + [("left", f"{path} still has them") for path in done.inbox]
