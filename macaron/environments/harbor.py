"""Task folders in Harbor's format as an environment: a shell in the task's files, and its tests.

The tests enter after the last command of the model, and the reward file is read by the host from a
folder that no command of the model ever saw. A run of the tests that leaves no reward is invalid,
never a wrong answer.
"""

import json
import logging
import math
import os
import random
import stat
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from macaron.environments.base import Score, Split, Task
from macaron.environments.box import Box, Limits
from macaron.environments.harbor_task import (
    NeedsContainerError,
    TaskFolder,
    read_folder,
    task_folders,
)
from macaron.environments.splits import text_split, user
from macaron.environments.toolkit import tool, verify_untouched
from macaron.errors import ConfigError, DigestError
from macaron.harness.tools import Tool, ToolFault

log = logging.getLogger("macaron.environments")

COMMAND = Limits()
SOLUTION = Limits(wall_s=300.0, cpu_s=300)
REWARD_BYTES = 65_536


class Workplace:
    """The files of one attempt, and the shell in them."""

    def __init__(self, folder: TaskFolder) -> None:
        self._folder = folder
        self._box = Box(folder.workdir, folder.variables)
        for source, inside in folder.copies:
            self._box.copy(source, inside)

    def tools(self) -> Sequence[Tool]:
        """bash."""
        return [tool(self.bash)]

    def bash(self, command: str) -> str:
        """Run a bash command in the task's folder; no network, and no process outlives it."""
        ran = self._box.run(command, COMMAND)
        if ran.code == -1:
            raise ToolFault(f"no end in {COMMAND.wall_s:.0f} s: the command was killed")
        return ran.output if ran.code == 0 else f"{ran.output}[exit status {ran.code}]"

    def solve(self) -> None:
        """Runs the task's own solution: what shows that it can be solved here.

        Raises:
            ConfigError: it brings none.
        """
        if self._folder.solution is None:
            raise ConfigError("there is no solution/solve.sh", where=str(self._folder.path))
        self._box.run(
            "bash /solution/solve.sh",
            SOLUTION,
            read={"/solution": self._folder.solution},
            variables=self._folder.solution_env,
        )

    def score(self, answer: str) -> Score:
        """The reward that tests/test.sh writes; the answer's text counts for nothing."""
        del answer
        seconds = self._folder.verifier_s
        with tempfile.TemporaryDirectory(prefix="logs-") as name:
            logs = Path(name)
            (logs / "verifier").mkdir()
            ran = self._box.run(
                "bash /tests/test.sh",
                Limits(wall_s=seconds, cpu_s=math.ceil(seconds)),
                read={"/tests": self._folder.tests},
                write={"/logs": logs},
                variables=self._folder.verifier_env,
            )
            if ran.code == -1:
                return Score(None, error=f"tests/test.sh did not end in {seconds:.0f} s")
            return read_reward(logs / "verifier")


def read_reward(folder: Path) -> Score:
    """The score in reward.json, else in reward.txt.

    Several rewards without one named `reward` are their mean.
    """
    for name in ("reward.json", "reward.txt"):
        text = _plain_text(folder / name)
        if text is not None:
            try:
                return _score(json.loads(text))
            except ValueError as error:
                return Score(None, error=f"{name}: {error}"[:200])
    return Score(None, error="tests/test.sh left no reward.txt and no reward.json")


def _plain_text(path: Path) -> str | None:
    """A regular file's text; a link, which could lead anywhere on the host, is no file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return file.read(REWARD_BYTES).decode(errors="replace")


def _score(value: Any) -> Score:
    """
    Raises:
        ValueError: there is a reward outside [0, 1], or none at all.
    """
    parts: Mapping[str, Any] = value if isinstance(value, dict) else {"reward": value}
    for name, part in parts.items():
        if type(part) not in (int, float) or not 0 <= part <= 1:
            raise ValueError(f"{name} should be a number in [0, 1], it is {part!r}")
    if not parts:
        raise ValueError("there is no reward")
    whole = parts.get("reward", sum(parts.values()) / len(parts))
    return Score(float(whole), {name: float(part) for name, part in parts.items()})


class HarborTasks:
    """The tasks of one folder that can run here."""

    specialist = "L1"

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self._folders: dict[str, TaskFolder] = {}
        refused: list[NeedsContainerError] = []
        for path in task_folders(root):
            try:
                folder = read_folder(path)
                self._folders[folder.name] = folder
            except NeedsContainerError as error:
                log.warning("left out: %s", error)
                refused.append(error)
        if not self._folders:
            raise refused[0]
        self.kinds: Sequence[str] = tuple(sorted({f.kind for f in self._folders.values()}))
        self._tasks = [self._task(folder) for folder in self._folders.values()]

    def tasks(self) -> list[Task]:
        """Every task, in the order of their folders."""
        return list(self._tasks)

    def _task(self, folder: TaskFolder) -> Task:
        messages = (user(folder.instruction),)
        data = {"name": folder.name, "digest": folder.digest}
        return Task(
            self.name, self.specialist, folder.kind, text_split(messages), messages, "", data
        )

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """One of the split's tasks; the same generator state gives the same one."""
        found = [t for t in self._tasks if t.split == split and kind in (None, t.kind)]
        if not found:
            raise ConfigError(f"no {split} task of kind {kind or 'any'}", where=self.name)
        return rng.choice(found)

    def world(self, task: Task) -> Workplace:
        """The task's files as its author left them.

        Raises:
            DigestError: they are not those that the task was made of.
        """
        folder = self._folders.get(task.data["name"])
        if folder is None:
            raise ConfigError(f"no task {task.data['name']!r}", where=self.name)
        if folder.digest != task.data["digest"]:
            raise DigestError("its files have changed", where=str(folder.path))
        return Workplace(folder)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """What answers are worth where no command has run."""
        return verify_untouched(self, tasks, answers)


def load_harbor(where: str) -> HarborTasks:
    """The environment `harbor:<folder>`; the folder is a task, or holds tasks.

    Raises:
        ConfigError: there is no such folder or no task in it, or none that can run here.
    """
    root = Path(where)
    if not root.is_dir():
        raise ConfigError("no such folder", where=where, mend="give a folder of Harbor tasks")
    return _loaded(root.resolve(), f"harbor:{where}")


@cache
def _loaded(root: Path, name: str) -> HarborTasks:
    return HarborTasks(root, name)
