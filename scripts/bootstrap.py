"""Makes .venv from requirements.lock, or does nothing where it is already so.

`--check` only says what the machine lacks.

The stamp is written last and holds the digests of what was installed, so that its agreement
means the installation completed. An interrupted one goes on at the next call. Standard library
only: `macaron.cli.machine` is too.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from macaron.cli import machine

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOG = VENV / "install.log"
STAMP = VENV / "installed"
UNFINISHED = VENV / "installing"
LOCK = ROOT / "requirements.lock"
PIP_ENVIRONMENT = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_USER": "0",
    "PYTHONNOUSERSITE": "1",
}
BROKEN = """
import importlib.metadata as m
for d in m.distributions():
    if d.files is None or not all(d.locate_file(f).exists() for f in d.files):
        print(f"{d.name}=={d.version}")
"""


class InstallError(Exception):
    """One line and the end of the log."""


def main() -> int:
    """0 when the environment is ready."""
    try:
        with _alone():
            return _main()
    except InstallError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 130


def _main() -> int:
    ready = _stamp_agrees()
    lines = list(machine.missing(ROOT, installing=not ready))
    for line in lines:
        print(f"missing: {line}", file=sys.stderr)
    if lines:
        return 1
    if not ready and "--check" not in sys.argv:
        _install()
    return 0


@contextmanager
def _alone() -> Iterator[None]:
    """Two commands at once would install over each other.

    A pip that outlives us inherits the lock, so that the next call waits for it.
    """
    with LOCK.open() as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another installation to end", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digests() -> str:
    """What the environment is made from."""
    parts = [
        hashlib.sha256((ROOT / n).read_bytes()).hexdigest() for n in (LOCK.name, "pyproject.toml")
    ]
    return "\n".join(parts) + "\n"


def _stamp_agrees() -> bool:
    if not (STAMP.exists() and PYTHON.exists() and STAMP.read_text() == _digests()):
        return False
    return not _other_python_wanted()


def _other_python_wanted() -> bool:
    """PYTHON was given, and the environment has another version."""
    if not os.environ.get("PYTHON"):
        return False
    have = (VENV / "pyvenv.cfg").read_text() if (VENV / "pyvenv.cfg").exists() else ""
    return not re.search(
        rf"^version *= *{sys.version_info[0]}\.{sys.version_info[1]}\b", have, re.M
    )


def _install() -> None:
    started = time.monotonic()
    _make_venv()
    resumed = UNFINISHED.exists()
    UNFINISHED.touch()
    STAMP.unlink(missing_ok=True)
    LOG.unlink(missing_ok=True)
    wanted = re.findall(r"^[a-z0-9]\S*==", LOCK.read_text(), re.M)
    print(
        f"installing {len(wanted)} packages into .venv (minutes; log in .venv/{LOG.name})",
        flush=True,
    )
    _pip(["-r", str(LOCK)], len(wanted))
    if resumed:
        _mend_half_installed()
    # The build backend is in the lock, so that nothing else is fetched here.
    _pip(["--no-deps", "--no-build-isolation", "-e", str(ROOT)], 1)
    STAMP.write_text(_digests())
    UNFINISHED.unlink()
    print(f"installed in {time.monotonic() - started:.0f} s", flush=True)


def _make_venv() -> None:
    """A venv whose pip runs; one that is half made or of another Python is made anew."""
    works = PYTHON.exists() and _runs([str(PYTHON), "-m", "pip", "--version"])
    if works and not _other_python_wanted():
        return
    print(f"making .venv with Python {sys.version.split()[0]}", flush=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True
    )
    if made.returncode:
        raise InstallError(f"python -m venv failed: {(made.stdout + made.stderr).strip()}")


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def _mend_half_installed() -> None:
    """A kill while files were copied leaves packages that pip takes for whole."""
    broken = subprocess.run(
        [str(PYTHON), "-c", BROKEN], capture_output=True, text=True, check=True
    ).stdout.split()
    if broken:
        _pip(["--force-reinstall", "--no-deps", *broken], len(broken))


def _pip(arguments: list[str], total: int) -> None:
    """Runs pip install, its output in the log and a counter on a terminal."""
    command = [str(PYTHON), "-m", "pip", "install", "--progress-bar", "off", *arguments]
    started, collected = time.monotonic(), 0
    with (
        LOG.open("a") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **PIP_ENVIRONMENT},
        ) as pip,
    ):
        assert pip.stdout is not None
        for line in pip.stdout:
            log.write(line)
            collected += line.startswith(("Collecting ", "Requirement already satisfied"))
            step = "unpacking" if line.startswith("Installing") else "collected"
            _show(
                f"  {min(collected, total)} of {total} {step}, {time.monotonic() - started:.0f} s"
            )
    _show("")
    if pip.returncode:
        tail = "".join(LOG.read_text().splitlines(keepends=True)[-15:])
        raise InstallError(
            f"{tail}pip failed; all of its output is in {LOG}. The same command tries again"
        )


def _show(text: str) -> None:
    """Overwrites one line of a terminal; nothing where the output is kept."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
