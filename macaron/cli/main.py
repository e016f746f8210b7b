"""The `macaron` command: its groups, and the one place where a fault becomes a line.

A MacaronError is a person's to mend and ends in one line on stderr; anything else is a bug of
ours and keeps its traceback.
"""

import signal
import sys

import typer

from macaron.cli import doctor, experience, hcp, improve, pairs, pool, rollback, serve, status
from macaron.errors import MacaronError

INTERRUPTED = 130
SIGNALS = 128
"""Above it an exit code says which signal ended a process."""
# The base of every complaint about a command line, whichever click typer is built on.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="macaron",
    help="A deployed agent goes on learning: one judged pair of adapters and harness a night.",
    epilog="Exit codes: 0 done or promoted, 3 rejected, others an error, said in one line.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(improve.improve)
app.add_typer(serve.app, name="serve")
app.command()(status.status)
app.add_typer(pairs.app, name="pairs")
app.add_typer(pool.app, name="pool")
app.add_typer(hcp.app, name="hcp")
app.command()(rollback.rollback)
app.add_typer(experience.app, name="experience")
app.command()(doctor.doctor)


def main() -> None:
    """Runs the command line and exits with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of one command line."""
    try:
        # Commands return nothing, or end with typer.Exit(code), which comes back as the code.
        code = app(args=arguments, prog_name="macaron", standalone_mode=False) or 0
    except MacaronError as error:
        print(f"macaron: {error}", file=sys.stderr)
        return error.exit_code
    except UsageError as error:
        return _usage(error)
    if code == INTERRUPTED:
        print("macaron: interrupted", file=sys.stderr)
    elif code > SIGNALS:
        name = signal.Signals(code - SIGNALS).name
        print(f"macaron: stopped by {name}; `macaron improve` goes on", file=sys.stderr)
    return int(code)


def _usage(error: Exception) -> int:
    """A faulty command line in one line; a group without a command has shown its help."""
    message = error.format_message()  # type: ignore[attr-defined]
    context = error.ctx  # type: ignore[attr-defined]
    if message:
        command = context.command_path if context else "macaron"
        print(f"macaron: {message} (see `{command} --help`)", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
