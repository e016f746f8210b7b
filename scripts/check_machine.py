"""What this machine lacks to install and run Macaron, one line a thing with how to get it.

Standard library only, and nothing is changed: it runs before anything is installed. The version
of Python is checked before it, by bootstrap.sh.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

INSTALL_GB = 6
"""Free disk that an environment and a first cycle need."""


def missing(root: Path, installing: bool) -> Iterator[str]:
    """One line for each missing thing.

    Args:
        root: the project.
        installing: whether the environment is still to be made.
    """
    if installing:
        yield from _venv_module()
        yield from _disk(root)
    yield from _compiler()
    yield from _git(root)


def _venv_module() -> Iterator[str]:
    # Debian ships the venv module without ensurepip, which it needs.
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        yield "Python's venv module. Debian and Ubuntu: apt-get install python3-venv"


def _compiler() -> Iterator[str]:
    compiler = os.environ.get("CXX", "c++").split()[0]
    if not shutil.which(compiler):
        yield (
            f"a C++ compiler, '{compiler}' (DeepSpeed builds a small part with it)."
            " Debian and Ubuntu: apt-get install g++"
        )
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        yield (
            "Python's C headers, Python.h (DeepSpeed builds a small part with them)."
            " Debian and Ubuntu: apt-get install python3-dev"
        )


def _disk(root: Path) -> Iterator[str]:
    free = shutil.disk_usage(root).free / 1e9
    if free < INSTALL_GB:
        yield f"disk: {free:.1f} GB free in {root}, {INSTALL_GB} GB needed. Free some"


def _git(root: Path) -> Iterator[str]:
    if not shutil.which("git"):
        yield "git (every pair's lineage is kept in it). Debian and Ubuntu: apt-get install git"
        return
    found = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "--verify", "HEAD"], capture_output=True, text=True
    )
    if found.returncode == 0:
        return
    if "dubious ownership" in found.stderr:
        yield (
            "git refuses a repository of another user."
            f" Say that it is yours: git config --global --add safe.directory {root}"
        )
    else:
        yield (
            f"a git repository with a commit in {root} (every pair's lineage is kept in it)."
            " Get the project with git clone, or: git init && git add . && git commit -m start"
        )


def main() -> int:
    """Prints what is missing; 1 if anything is."""
    root = Path(__file__).resolve().parent.parent
    lines = list(missing(root, installing=True))
    for line in lines:
        print(f"missing: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
