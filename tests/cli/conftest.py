"""A project that never ran, and commands run in it."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from macaron.cli.main import run

HOUSE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """What a command came to."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The house's settings and documents in a git repository, without base and flows."""
    folder = tmp_path / "project"
    for part in ("contracts", "models/profiles"):
        shutil.copytree(HOUSE / part, folder / part)
    shutil.copy(HOUSE / "macaron.toml", folder)
    for command in ("init -q", "add -A", "commit -qm start"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


@pytest.fixture
def macaron(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """Runs a command line in the project, in this process."""
    monkeypatch.chdir(root)

    def command(*arguments: str | Path) -> Said:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        return Said(code, *capfd.readouterr())

    return command
