"""Makes .venv from requirements.lock, or does nothing where it is already so.

`--check` only says what the machine lacks.

The stamp is written last and holds the digests of what was installed, so that its agreement
means the installation completed. An interrupted one goes on at the next call. Standard library
only: `macaron.cli.machine` is too.
"""

import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
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


class CrashError(InstallError):
    """pip itself crashed: seen once in three installations with Debian's Python 3.11.2."""


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
    """What the environment is made from: the lock, and what pyproject.toml says of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    made_from = [LOCK.read_text(encoding="utf-8"), project["project"], project["build-system"]]
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest() + "\n"


def _stamp_agrees() -> bool:
    return STAMP.exists() and STAMP.read_text() == _digests() and _is_ours()


def _is_ours() -> bool:
    """The environment was made here, and with the Python that PYTHON names, if it names one."""
    config = VENV / "pyvenv.cfg"
    if not (PYTHON.exists() and config.exists()):
        return False
    text = config.read_text()
    # Its scripts hold the folder's name, so that they end with a moved checkout.
    here = re.search(rf"^command *=.* {re.escape(str(VENV))}$", text, re.M)
    major, minor = sys.version_info[:2]
    same = re.search(rf"^version *= *{major}\.{minor}\b", text, re.M)
    return bool(here and (same or not os.environ.get("PYTHON")))


def _install() -> None:
    started = time.monotonic()
    _make_venv(anew=not _is_ours())
    resumed = UNFINISHED.exists()
    try:
        _fill(mend=resumed)
    except InstallError as error:
        if not (resumed or isinstance(error, CrashError)):
            raise
        # What a kill or crash left can be in pip's way; what was downloaded is kept outside.
        print("that ended in the middle; once more, from the start", flush=True)
        _make_venv(anew=True)
        _fill(mend=False)
    print(f"installed in {time.monotonic() - started:.0f} s", flush=True)


def _fill(mend: bool) -> None:
    UNFINISHED.touch()
    STAMP.unlink(missing_ok=True)
    LOG.unlink(missing_ok=True)
    wanted = re.findall(r"^[a-z0-9]\S*==", LOCK.read_text(), re.M)
    where = f".venv (minutes; log in .venv/{LOG.name})"
    print(f"installing {len(wanted)} packages into {where}", flush=True)
    _pip(["-r", str(LOCK)], len(wanted))
    if mend:
        _mend_half_installed()
    # The build backend is in the lock, so that nothing else is fetched here.
    _pip(["--no-deps", "--no-build-isolation", "-e", str(ROOT)], 1)
    STAMP.write_text(_digests())
    UNFINISHED.unlink()


def _make_venv(anew: bool) -> None:
    """A venv whose pip runs; one that is half made is made anew in any case."""
    if not anew and _runs([str(PYTHON), "-m", "pip", "--version"]):
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
            close_fds=False,
        ) as pip,
    ):
        assert pip.stdout is not None
        for line in pip.stdout:
            log.write(line)
            collected += line.startswith(("Collecting ", "Requirement already satisfied"))
            step = "unpacking" if line.startswith("Installing") else "collected"
            spent = time.monotonic() - started
            _show(f"  {min(collected, total)} of {total} {step}, {spent:.0f} s")
    _show("")
    if pip.returncode:
        tail = "".join(LOG.read_text().splitlines(keepends=True)[-15:])
        how = "failed" if pip.returncode > 0 else f"was ended by signal {-pip.returncode}"
        kind = CrashError if -pip.returncode in (signal.SIGSEGV, signal.SIGBUS) else InstallError
        raise kind(f"{tail}pip {how}; its output is in {LOG}. The same command tries again")


def _show(text: str) -> None:
    """Overwrites one line of a terminal; nothing where the output is kept."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
