"""The command line's surface: complete help, and one line and the right code for each fault."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command

from macaron import errors
from macaron.cli import status
from macaron.cli.main import app, run
from tests.cli.conftest import HOUSE, Command

COMMANDS = {
    "improve", "status", "pairs list", "pairs show", "pairs diff", "pairs restore", "rollback",
    "hcp show", "hcp validate", "hcp diff", "hcp set", "hcp approve", "pool list", "pool show",
    "pool demote",
    "experience stats", "experience import", "experience forget", "doctor",
    "serve", "serve keys add", "serve keys list", "serve keys revoke",
}  # fmt: skip


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield " ".join((*path, name)), command


def test_help_is_complete() -> None:
    found = dict(commands(get_command(app)))
    assert set(found) == COMMANDS
    for name, command in found.items():
        assert command.help, name
        silent = [p.name for p in command.params if not getattr(p, "help", None)]
        assert not silent, name


def test_the_command_is_the_module() -> None:
    command = [sys.executable, "-m", "macaron.cli.main", "--help"]
    shown = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True)
    assert shown.returncode == 0
    assert all(name.split()[0] in shown.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("improve", "--sead", "3"), "No such option: --sead"),
        (("improve", "--seed", "three"), "should be a valid integer"),
        (("improve", "--seed", "-1"), "greater than or equal to 0"),
        (("pairs", "show"), "Missing argument"),
        (("pears",), "No such command"),
    ],
)
def test_a_faulty_command_line_is_one_line(
    macaron: Command, arguments: tuple[str, ...], said: str
) -> None:
    found = macaron(*arguments)
    assert found.code == 2
    assert said in found.err
    assert found.err.startswith("macaron: ")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    "kind",
    [k for k in vars(errors).values() if isinstance(k, type) and k.__module__ == "macaron.errors"],
)
def test_a_fault_is_one_line_with_its_own_code(
    macaron: Command, monkeypatch: pytest.MonkeyPatch, kind: type[errors.MacaronError]
) -> None:
    def fail(settings: object) -> None:
        raise kind("went wrong", where="here", mend="do that")

    monkeypatch.setattr(status, "gather", fail)
    found = macaron("status")
    assert found.err == "macaron: here: went wrong (do that)\n"
    assert found.code == kind.exit_code != 0


def test_a_bug_keeps_its_traceback(macaron: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(settings: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(status, "gather", fail)
    with pytest.raises(ZeroDivisionError):
        macaron("status")


def test_an_interruption_is_one_line(macaron: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "gather", interrupt)
    found = macaron("status")
    assert (found.code, found.err) == (130, "macaron: interrupted\n")


def test_exit_codes_pass(monkeypatch: pytest.MonkeyPatch, macaron: Command) -> None:
    def leave(settings: object) -> None:
        raise typer.Exit(3)

    monkeypatch.setattr(status, "gather", leave)
    assert macaron("status").code == 3


def test_outside_a_project_every_command_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("status", "improve", "pairs list", "rollback", "experience stats"):
        assert run(name.split()) == 2
        assert "no macaron.toml here or above" in capfd.readouterr().err
