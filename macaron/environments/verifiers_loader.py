"""Environments made for the `verifiers` package, 0.4: their tasks, tools and rewards as ours.

The package lives in a Python of its own, since it pins other packages to single versions; its code
and the taskset's run there, asked over pipes. What it cannot give without its own runner
(containers, judges, a user that talks) is refused in one line when the taskset is loaded.
"""

import importlib.util
import json
import os
import random
import sys
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from macaron.environments.base import Score, Split, Task
from macaron.environments.bridge import Bridge, BridgeError, Fault, script
from macaron.environments.splits import text_split
from macaron.environments.toolkit import verify_untouched
from macaron.errors import ConfigError, MacaronError
from macaron.harness.tools import Tool, ToolFault
from macaron.messages import Message
from macaron.settings import find_root

VENV = ".venv-verifiers"
MEND = f'python3 -m venv {VENV} && {VENV}/bin/pip install "verifiers==0.4.*"'
MOST = 1000
"""Tasks taken of a taskset, which may be endless."""
LOAD_S = 300.0
CALL_S = 60.0


def verifiers_python() -> Path:
    """The Python that has the package: this one, or that of `.venv-verifiers` in the project.

    Raises:
        ConfigError: neither has it.
    """
    if importlib.util.find_spec("verifiers") is not None:
        return Path(sys.executable)
    try:
        found = find_root() / VENV / "bin" / "python"
    except ConfigError:
        found = Path(VENV) / "bin" / "python"
    if not found.exists():
        raise ConfigError("the package verifiers is not installed", mend=MEND)
    return found.absolute()


class Episode:
    """One attempt at a taskset's task; what its rewards look at is the calls made through it."""

    def __init__(self, bridge: Bridge, data: Mapping[str, Any], ended: deque[str]) -> None:
        """
        Args:
            bridge: to the taskset's worker.
            data: of the task.
            ended: numbers of episodes that the worker may forget; this one adds itself at its end.
        """
        self._bridge, self._calls = bridge, list[Message]()
        old = [ended.popleft() for _ in range(len(ended))]
        opened = bridge.ask("open", CALL_S, index=data["index"], key=data["key"], ended=old)
        self._number = opened["episode"]
        self._tools = [self._tool(spec) for spec in opened["tools"]]
        # A finaliser can run anywhere, even within a request: it only leaves a note.
        weakref.finalize(self, ended.append, self._number)

    def tools(self) -> Sequence[Tool]:
        """The tools of the task and of its taskset, by the names that its prompts use."""
        return self._tools

    def _tool(self, spec: Mapping[str, Any]) -> Tool:
        name = spec["name"]
        return Tool(name, spec["description"], spec["parameters"], lambda a: self._call(name, a))

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        try:
            text = str(
                self._bridge.ask(
                    "call", CALL_S, episode=self._number, tool=name, arguments=arguments
                )["text"]
            )
        except (Fault, BridgeError) as error:
            self._record(name, arguments, f"Error: {error}")
            raise ToolFault(str(error)) from error
        self._record(name, arguments, text)
        return text

    def _record(self, name: str, arguments: dict[str, Any], text: str) -> None:
        key = f"call-{len(self._calls) // 2}"
        call = {"id": key, "name": name, "arguments": json.dumps(arguments)}
        self._calls += [
            {"role": "assistant", "content": "", "tool_calls": [call]},  # type: ignore[list-item]
            {"role": "tool", "content": text, "tool_call_id": key},
        ]

    def score(self, answer: str) -> Score:
        """The weighted mean of the task's rewards; None where one is outside [0, 1]."""
        messages = [*self._calls, {"role": "assistant", "content": answer}]
        try:
            found = self._bridge.ask("score", CALL_S, episode=self._number, messages=messages)
        except MacaronError as error:
            return Score(None, error=str(error)[:200])
        return weighted(found["rewards"])


def weighted(rewards: Mapping[str, Sequence[float] | None]) -> Score:
    """One reward in [0, 1] from named [score, weight] pairs.

    Positive weights are made to sum to 1; a negative one takes off, down to 0.
    """
    missing = [name for name, found in rewards.items() if found is None]
    if missing:
        return Score(None, error=f"not scored: {', '.join(missing)}")
    pairs = {name: (found[0], found[1]) for name, found in rewards.items() if found is not None}
    outside = [f"{name} is {score}" for name, (score, _) in pairs.items() if not 0 <= score <= 1]
    if outside:
        return Score(None, error=f"a reward outside [0, 1]: {', '.join(outside)}")
    whole = sum(weight for _, weight in pairs.values() if weight > 0)
    if not whole:
        return Score(None, error="no reward has a weight")
    total = sum(score * weight for score, weight in pairs.values()) / whole
    return Score(max(0.0, total), {name: score for name, (score, _) in pairs.items()})


class VerifiersTasks:
    """One taskset."""

    specialist = "L1"
    kinds: Sequence[str] = ("task",)

    def __init__(self, taskset: str, python: Path, path: Sequence[Path] = ()) -> None:
        """Loads the taskset in a worker.

        Args:
            taskset: its id, as the package knows it.
            python: the Python that has the package.
            path: folders that hold tasksets which are not installed.

        Raises:
            ConfigError: there is none of that name, or it cannot be had here.
        """
        self.name = f"verifiers:{taskset}"
        self._bridge = Bridge(
            # -P: the script's folder holds modules of ours, whose names others use too.
            [str(python), "-P", script("verifiers_worker.py")],
            self.name,
            {"verb": "load", "seconds": LOAD_S, "taskset": taskset, "most": MOST},
            {"PYTHONPATH": os.pathsep.join(map(str, path))},
        )
        self._ended: deque[str] = deque()
        try:
            self._bridge.start()
        except BridgeError as error:
            raise ConfigError(error.what, where=self.name, mend=MEND) from error
        rows = self._bridge.opened["tasks"]
        self._tasks = [self._task(index, row) for index, row in enumerate(rows)]

    def tasks(self) -> list[Task]:
        """The taskset's tasks, in its order, each in the split that its prompt belongs to."""
        return list(self._tasks)

    def _task(self, index: int, row: Mapping[str, Any]) -> Task:
        messages = tuple(Message(role=m["role"], content=m["content"]) for m in row["messages"])
        data = {"index": index, "key": row["key"]}
        split = text_split(messages)
        return Task(self.name, self.specialist, "task", split, messages, row["answer"], data)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """One of the split's tasks; the same generator state gives the same one."""
        found = [t for t in self._tasks if t.split == split and kind in (None, t.kind)]
        if not found:
            raise ConfigError(f"no {split} task of kind {kind or 'any'}", where=self.name)
        return rng.choice(found)

    def world(self, task: Task) -> Episode:
        """A fresh episode of the task.

        Raises:
            ConfigError: the taskset no longer has it.
        """
        return Episode(self._bridge, task.data, self._ended)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """The rewards of answers alone, as of a conversation without tool calls."""
        return verify_untouched(self, tasks, answers)

    def close(self) -> None:
        """Ends the worker."""
        self._bridge.close()


@cache
def load_verifiers(taskset: str) -> VerifiersTasks:
    """The environment `verifiers:<taskset>`, by the id that the taskset is installed under.

    Raises:
        ConfigError: the package or the taskset is not installed, or it cannot be had here.
    """
    return VerifiersTasks(taskset, verifiers_python())
