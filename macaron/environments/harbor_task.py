"""A task folder in Harbor's format: what it asks, and whether it can run here without a container.

    task.toml  instruction.md  environment/Dockerfile  tests/test.sh  solution/solve.sh

Only what a plain folder can stand in for is read of a Dockerfile: a general-purpose base image, a
working directory, variables, copied files. Anything else is one line that says what is lacking.
"""

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from macaron.environments.box import SYSTEM
from macaron.errors import ConfigError
from macaron.files import digest_tree

BASES = ("bash", "buildpack-deps", "debian", "python", "ubuntu")
"""Images that bring nothing but a shell, the usual commands and Python, as this machine does."""

INSTALLS = re.compile(r"\b(apt|apt-get|apk|curl|wget|pip3?|uv|uvx|npm|npx|conda|git clone)\b")
CONTAINER_FIELDS = ("docker_image", "gpus", "tpu", "mcp_servers", "healthcheck")
CANARY = re.compile(r"^(<!--|#).*canary", re.IGNORECASE)


@dataclass(frozen=True)
class TaskFolder:
    """One task as its files say it."""

    path: Path
    name: str
    kind: str
    """The difficulty that its author gives it."""
    instruction: str
    workdir: PurePosixPath
    variables: Mapping[str, str]
    copies: tuple[tuple[Path, PurePosixPath], ...]
    """(file or folder here, place in the container)."""
    verifier_env: Mapping[str, str]
    verifier_s: float
    solution_env: Mapping[str, str]

    @property
    def tests(self) -> Path:
        """The verifier's folder."""
        return self.path / "tests"

    @property
    def solution(self) -> Path | None:
        """The reference solution's folder, where there is one."""
        folder = self.path / "solution"
        return folder if (folder / "solve.sh").is_file() else None

    @property
    def digest(self) -> str:
        """SHA-256 of all files."""
        return digest_tree(self.path)


class NeedsContainerError(ConfigError):
    """The task cannot run in a plain folder."""


def task_folders(root: Path) -> list[Path]:
    """The folder itself where it is a task, else those of its folders that are, by name.

    Raises:
        ConfigError: there is no task.
    """
    if (root / "task.toml").is_file():
        return [root]
    found = sorted(file.parent for file in root.glob("*/task.toml"))
    if not found:
        raise ConfigError("no task.toml in it or in its folders", where=str(root))
    return found


def read_folder(path: Path) -> TaskFolder:
    """The task in a folder.

    Raises:
        ConfigError: a file is missing or is not what the format says.
        NeedsContainerError: it asks for more than a plain folder.
    """
    config = _config(path)
    workdir, variables, copies = _image(path, config)
    verifier, metadata = config.get("verifier", {}), config.get("metadata", {})
    return TaskFolder(
        path=path,
        name=str(config.get("task", {}).get("name", path.name)),
        kind=str(metadata.get("difficulty", "task")),
        instruction=_instruction(path),
        workdir=workdir,
        variables=variables,
        copies=copies,
        verifier_env=_plain_variables(path, verifier.get("env", {})),
        verifier_s=float(verifier.get("timeout_sec", 600.0)),
        solution_env=_plain_variables(path, config.get("solution", {}).get("env", {})),
    )


def _config(path: Path) -> dict[str, Any]:
    file = path / "task.toml"
    try:
        config = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not TOML: {error}", where=str(file)) from error
    for name in ("environment", "verifier", "metadata", "task", "solution"):
        if not isinstance(config.get(name, {}), dict):
            raise ConfigError(f"{name} should be a table", where=str(file))
    return config


def _instruction(path: Path) -> str:
    file = path / "instruction.md"
    if not file.is_file():
        raise ConfigError("there is no instruction.md", where=str(path))
    lines = file.read_text(encoding="utf-8").strip().split("\n")
    # Marks by which a benchmark finds itself in training data are not for the agent.
    return "\n".join(line for line in lines if not CANARY.match(line)).strip()


def _plain_variables(path: Path, values: Mapping[str, Any]) -> dict[str, str]:
    for name, value in values.items():
        if "${" in str(value):
            raise NeedsContainerError(
                f"the variable {name} is taken from the host ({value})", where=str(path)
            )
    return {name: str(value) for name, value in values.items()}


def _lacks(path: Path, what: str) -> NeedsContainerError:
    return NeedsContainerError(f"needs a container: {what}", where=str(path))


def _image(
    path: Path, config: Mapping[str, Any]
) -> tuple[PurePosixPath, dict[str, str], tuple[tuple[Path, PurePosixPath], ...]]:
    """Working directory, variables and copied files of the task's image."""
    environment, verifier = config.get("environment", {}), config.get("verifier", {})
    for name in CONTAINER_FIELDS:
        if environment.get(name):
            raise _lacks(path, f"environment.{name} is set")
    if str(environment.get("os", "linux")).lower() != "linux":
        raise _lacks(path, f"environment.os is {environment['os']}")
    if verifier.get("environment") or verifier.get("environment_mode") == "separate":
        raise _lacks(path, "its verifier has an environment of its own")
    if config.get("steps"):
        raise _lacks(path, "it has several steps")
    if list((path / "environment").glob("*compose.y*ml")):
        raise _lacks(path, "it is composed of several services")
    script = path / "tests" / "test.sh"
    if not script.is_file():
        raise ConfigError("there is no tests/test.sh", where=str(path))
    if found := INSTALLS.search(_code(script.read_text(encoding="utf-8"))):
        raise _lacks(path, f"tests/test.sh installs or downloads ({found.group()})")
    workdir, variables, copies = _dockerfile(path)
    variables |= _plain_variables(path, environment.get("env", {}))
    return PurePosixPath(environment.get("workdir") or workdir), variables, copies


def _code(script: str) -> str:
    """The script without its comments."""
    return "\n".join(line for line in script.split("\n") if not line.lstrip().startswith("#"))


def _dockerfile(
    path: Path,
) -> tuple[PurePosixPath, dict[str, str], tuple[tuple[Path, PurePosixPath], ...]]:
    file = path / "environment" / "Dockerfile"
    if not file.is_file():
        raise _lacks(path, "there is no environment/Dockerfile")
    workdir, variables = PurePosixPath("/"), dict[str, str]()
    copies: list[tuple[Path, PurePosixPath]] = []
    for word, rest in _instructions(file.read_text(encoding="utf-8")):
        if word == "FROM":
            if re.split(r"[:@]", rest.split()[0])[0] not in BASES:
                raise _lacks(path, f"its image is from {rest.split()[0]}")
        elif word == "WORKDIR":
            workdir = _inside(path, workdir / rest.strip("\"' "))
        elif word == "ENV":
            variables |= _assignments(rest)
        elif word in ("COPY", "ADD"):
            copies += _copied(path, rest, workdir)
        elif word not in ("LABEL", "CMD", "ENTRYPOINT", "SHELL", "EXPOSE", "MAINTAINER"):
            raise _lacks(path, f"its Dockerfile has {word} {rest[:40]}".rstrip())
    if workdir == PurePosixPath("/"):
        raise _lacks(path, "its Dockerfile sets no WORKDIR")
    return workdir, variables, tuple(copies)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    for line in _code(text).replace("\\\n", " ").split("\n"):
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def _assignments(text: str) -> dict[str, str]:
    words = shlex.split(text)
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return dict(word.partition("=")[::2] for word in words)


def _copied(path: Path, text: str, workdir: PurePosixPath) -> list[tuple[Path, PurePosixPath]]:
    words = shlex.split(text)
    if len(words) < 2 or any(word.startswith(("--", "[", "http")) or "*" in word for word in words):
        raise _lacks(path, f"its Dockerfile has COPY {text[:40]}")
    context, target = (path / "environment").resolve(), words[-1]
    found = []
    for word in words[:-1]:
        source = (context / word.lstrip("/")).resolve()
        if not source.is_relative_to(context) or not source.exists():
            raise ConfigError(f"COPY {word}: there is no such file", where=str(context))
        place = workdir / target
        if source.is_file() and (target.endswith(("/", ".")) or len(words) > 2):
            place = place / source.name
        found.append((source, _inside(path, place)))
    return found


def _inside(path: Path, place: PurePosixPath) -> PurePosixPath:
    """The place, once it lies in a folder of the task's own and not in one of the system's."""
    parts = [part for part in place.parts if part != "."]
    if ".." in parts or len(parts) < 2 or parts[1] in SYSTEM:
        raise _lacks(path, f"it writes to {place}")
    return PurePosixPath(*parts)
