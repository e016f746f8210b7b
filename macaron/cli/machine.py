"""What this machine lacks to install and run Macaron, one line a thing with how to get it.

Standard library only, and nothing is changed: it also runs before anything is installed.
"""

import importlib.util
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

INSTALL_GB = 6
"""Free disk that an environment and a first cycle need, 10^9 bytes."""


def missing(root: Path, installing: bool) -> Iterator[str]:
    """One line for each missing thing.

    Args:
        root: the project.
        installing: whether the environment is still to be made.
    """
    if installing:
        yield from venv_module()
        yield from disk(root)
    yield from compiler()
    yield from git(root)


def venv_module() -> Iterator[str]:
    """What an environment needs of Python itself."""
    # Debian ships the venv module without ensurepip, which it needs.
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        yield "Python's venv module. Debian and Ubuntu: apt-get install python3-venv"


def disk(root: Path) -> Iterator[str]:
    """Whether an environment fits."""
    free = shutil.disk_usage(root).free / 1e9
    if free < INSTALL_GB:
        yield f"disk: {free:.1f} GB free in {root}, {INSTALL_GB} GB needed. Free some"


def compiler() -> Iterator[str]:
    """What DeepSpeed builds a small part with at its first use."""
    command = os.environ.get("CXX", "c++").split()[0]
    if not shutil.which(command):
        yield f"a C++ compiler, '{command}'. Debian and Ubuntu: apt-get install g++"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        yield "Python's C headers, Python.h. Debian and Ubuntu: apt-get install python3-dev"


def git(root: Path) -> Iterator[str]:
    """Where every pair's lineage is kept."""
    if not shutil.which("git"):
        yield "git. Debian and Ubuntu: apt-get install git"
        return
    found = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "--verify", "HEAD"], capture_output=True, text=True
    )
    if found.returncode == 0:
        return
    if "dubious ownership" in found.stderr:
        yield (
            "git's trust in a repository of another user."
            f" Say that it is yours: git config --global --add safe.directory {root}"
        )
    else:
        yield (
            f"a git repository with a commit in {root}."
            " Get the project with git clone, or: git init && git add . && git commit -m start"
        )
