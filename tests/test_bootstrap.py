"""The way to an environment: clear lines on a poor machine, nothing done twice, mended."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parent.parent
BUILD = ("hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a small lock: only what builds the project."""
    folder = tmp_path / "checkout"
    shutil.copytree(HOUSE / "scripts", folder / "scripts")
    for name in ("macaron/__init__.py", "macaron/cli/__init__.py", "macaron/cli/machine.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HOUSE / name, folder / name)
    for name in ("pyproject.toml", "README.md", "LICENSE", "Makefile"):
        shutil.copy(HOUSE / name, folder)
    pins = (HOUSE / "requirements.lock").read_text().splitlines()
    small = [line for line in pins if line.split("==")[0] in BUILD]
    assert len(small) == len(BUILD)
    (folder / "requirements.lock").write_text("\n".join(small) + "\n")
    for command in ("init -q", "add -A", "commit -qm start"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


def bootstrap(root: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PYTHON": sys.executable} | variables
    return subprocess.run(
        ["scripts/bootstrap.sh", *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
    )


def stamp_agrees(root: Path) -> bool:
    code = "from scripts.bootstrap import _stamp_agrees; print(_stamp_agrees())"
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    return found.stdout == "True\n"


def tools(folder: Path, *names: str) -> str:
    """A PATH with these programs only."""
    folder.mkdir()
    for name in ("dirname", *names):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return str(folder)


def test_each_missing_thing_is_one_line(root: Path, tmp_path: Path) -> None:
    found = bootstrap(root, "--check", PATH=tools(tmp_path / "bin"))
    assert found.returncode == 1
    lines = found.stderr.splitlines()
    assert [re.split(r"[,.(]", line)[0] for line in lines] == [
        "missing: a C++ compiler",
        "missing: git",
    ]
    assert all("apt-get install" in line for line in lines)


def test_a_download_without_git_is_told(root: Path) -> None:
    shutil.rmtree(root / ".git")
    found = bootstrap(root, "--check")
    assert found.returncode == 1
    assert found.stderr.startswith("missing: a git repository with a commit in ")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("version", ["3.10.13", None])
def test_no_python_or_an_old_one_is_one_line(
    root: Path, tmp_path: Path, version: str | None
) -> None:
    python = tmp_path / "python"
    if version:
        python.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo Python {version} && exit\nexit 1\n'
        )
        python.chmod(0o755)
    found = bootstrap(root, "--check", PYTHON=str(python))
    assert found.returncode == 1
    assert found.stderr.startswith("missing: Python 3.11 or newer")
    assert found.stderr.count("\n") == 1
    assert (f"Python {version}" if version else "none that runs") in found.stderr


def test_the_machine_of_the_tests_lacks_nothing(root: Path) -> None:
    found = bootstrap(root, "--check")
    assert (found.returncode, found.stderr) == (0, "")
    assert not (root / ".venv").exists(), "a check makes nothing"


@pytest.mark.full
def test_an_environment_is_made_once_and_mended(root: Path) -> None:
    made = bootstrap(root)
    assert made.returncode == 0, made.stdout + made.stderr
    assert f"installing {len(BUILD)} packages" in made.stdout
    assert len(made.stdout.splitlines()) == 3
    stamp, python = root / ".venv" / "installed", root / ".venv" / "bin" / "python"
    assert (root / ".venv" / "bin" / "macaron").exists()

    again = bootstrap(root)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")

    shutil.copytree(root, root.with_name("moved"), symlinks=True)
    moved = bootstrap(root.with_name("moved"), "--check", PATH=os.environ["PATH"])
    assert moved.returncode == 0
    assert not stamp_agrees(root.with_name("moved")) and stamp_agrees(root)

    # As a kill leaves it: a package half copied, and no stamp.
    where = [str(python), "-c", "import pluggy; print(pluggy.__file__)"]
    module = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    module.unlink()
    stamp.rename(stamp.with_name("installing"))
    mended = bootstrap(root)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert module.exists() and stamp.exists()

    (root / "requirements.lock").write_text("packaging==9999\n")
    failed = bootstrap(root, PIP_NO_INDEX="1")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith("pip failed; its output is in ")
    assert not stamp.exists(), "the next call tries again"
