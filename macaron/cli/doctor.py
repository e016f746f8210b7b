"""`macaron doctor`: every part that a cycle needs, one line each, with how to mend it."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from macaron.cli.checks.check import Check

MARKS = {
    "ok": "\033[32m✓\033[0m ok  ",
    "warn": "\033[33m!\033[0m warn",
    "fail": "\033[31m✗\033[0m fail",
}


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Check what a cycle needs, one line a part with how to mend it.

    Nothing is changed. Exit code 1 if any check fails; a warning alone is 0.
    """
    from dataclasses import asdict

    from macaron.cli.output import print_json

    found = []
    for check in _checks():
        found.append(check)
        if not json:
            print(_line(check), flush=True)
    if json:
        print_json([asdict(check) for check in found])
    raise typer.Exit(1 if any(check.level == "fail" for check in found) else 0)


def _checks() -> Iterator["Check"]:
    from macaron.cli.checks import documents, machine, parts
    from macaron.cli.checks.check import fail
    from macaron.errors import MacaronError
    from macaron.settings import load_settings

    yield from machine.tools()
    try:
        settings = load_settings()
    except MacaronError as error:
        # All that follows is read from them.
        yield fail("settings", str(error))
        return
    yield from documents.checks(settings)
    yield from machine.resources(settings)
    yield from parts.checks(settings)


def _line(check: "Check") -> str:
    mark = MARKS[check.level] if sys.stdout.isatty() else f"{check.level:<4}"
    mend = f" -> {check.mend}" if check.mend else ""
    return f"{mark}  {check.name:<10} {check.fact}{mend}"
