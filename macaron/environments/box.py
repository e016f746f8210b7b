"""A box: folders laid out as a container's, in which a command runs without network or host files.

bubblewrap makes it anew for each command, so that nothing that a command started outlives it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from macaron.errors import ConfigError

SYSTEM = ("bin", "dev", "etc", "lib", "lib32", "lib64", "logs", "proc", "sbin", "solution", "sys",
          "tests", "tmp", "usr")  # fmt: skip
"""Top folders that are the system's or the verifier's; a task's own are others."""

OUTPUT_BYTES = 64_000
"""Of a command's output; what is beyond is dropped."""

SCRATCH_BYTES = 64 << 20
"""Of /tmp, which is memory."""

_LIMITED = 'ulimit -t "$1" -v "$2" -f "$3" -n 256 -c 0; shift 3; exec "$@"'


@dataclass(frozen=True)
class Limits:
    """What one command may use."""

    wall_s: float = 60.0
    cpu_s: int = 60
    memory_mib: int = 1024
    """Address space of each process."""
    file_mib: int = 64


@dataclass(frozen=True)
class Ran:
    """What became of a command."""

    code: int
    """Exit status; -1 where it ran out of time."""
    output: str
    """Standard output and error together."""


@cache
def lacking() -> str:
    """Why no box can be made here; empty where one can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    ran = _run([*_walls(), "true"], 10.0)
    return "" if ran.code == 0 else f"bubblewrap makes no box: {ran.output.strip()[:200]}"


class Box:
    """Folders of one episode, each bound at its place; they go when the box does."""

    def __init__(self, workdir: PurePosixPath, variables: Mapping[str, str]) -> None:
        """
        Raises:
            ConfigError: no box can be made here.
        """
        if found := lacking():
            raise ConfigError(f"needs a container: {found}", mend="apt-get install bubblewrap")
        self.workdir, self._variables = workdir, dict(variables)
        self._folder = tempfile.TemporaryDirectory(prefix="box-")
        self._root = Path(self._folder.name)
        self.place(workdir).mkdir(parents=True)

    def place(self, inside: PurePosixPath) -> Path:
        """Where a path of the box is on the host."""
        return self._root / inside.relative_to("/")

    def copy(self, source: Path, inside: PurePosixPath) -> None:
        """Puts a file or the content of a folder into the box."""
        target = self.place(inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
        else:
            shutil.copy2(source, target)

    def run(
        self,
        command: str,
        limits: Limits,
        *,
        read: Mapping[str, Path] | None = None,
        write: Mapping[str, Path] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Ran:
        """Runs a bash command in the working directory.

        Args:
            command: text for `bash -c`.
            limits: of this command.
            read: place in the box -> folder of the host that it may read; `write`: and change.
            variables: beside the box's own; nothing of the host's environment is there.
        """
        own = {f"/{folder.name}": folder for folder in sorted(self._root.iterdir())}
        line = [
            *_walls(),
            *_binds("--ro-bind", read or {}),
            *_binds("--bind", {**own, **(write or {})}),
            *_set({"HOME": "/tmp", "LANG": "C.UTF-8", **self._variables, **(variables or {})}),
            *("--chdir", str(self.workdir), "bash", "-c", _LIMITED, "bash"),
            *map(str, (limits.cpu_s, limits.memory_mib << 10, limits.file_mib << 10)),
            *("bash", "-c", command),
        ]
        return _run(line, limits.wall_s)


def _walls() -> list[str]:
    line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    line += ["--clearenv", "--hostname", "box", "--proc", "/proc", "--dev", "/dev"]
    line += ["--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp"]
    path = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
    for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64"):
        folder = Path("/", name)
        if folder.is_symlink():
            line += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.exists():
            line += ["--ro-bind", str(folder), str(folder)]
    python = Path(sys.base_prefix).resolve()
    if not python.is_relative_to("/usr"):
        line += ["--ro-bind", str(python), str(python)]
        path.insert(0, f"{python}/bin")
    return [*line, "--setenv", "PATH", ":".join(path)]


def _binds(how: str, folders: Mapping[str, Path]) -> list[str]:
    return [word for place, folder in folders.items() for word in (how, str(folder), place)]


def _set(variables: Mapping[str, str]) -> list[str]:
    return [word for name, value in variables.items() for word in ("--setenv", name, value)]


def _run(line: Sequence[str], wall_s: float) -> Ran:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # bubblewrap is the box's first process, and its own environment can be read there.
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
        try:
            code = process.wait(wall_s)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        return Ran(code, output.read(OUTPUT_BYTES).decode(errors="replace"))
