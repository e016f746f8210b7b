"""Runs a taskset of the `verifiers` package; a script for the Python that has it, not for ours.

It imports nothing of this project. JSON lines come in, JSON lines go out: {"ok": value} or
{"error": text, "kind": "refused" | "fault" | "failed"}. The package's own code runs in here.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any

import verifiers.v1 as vf
from mcp.server.mcpserver import MCPServer  # type: ignore[import-not-found,unused-ignore]
from verifiers.v1.graph import MessageNode
from verifiers.v1.state import state_cls


class Refused(Exception):  # noqa: N818  (what it says is the answer)
    """The taskset asks for what is not here."""


class Fault(Exception):  # noqa: N818
    """A tool says no; the model may read it."""


@dataclass
class Episode:
    """One attempt at a task."""

    task: Any
    state: Any
    servers: list[tuple[Any, Any]]
    """(toolset, its MCP server)."""
    names: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Name for the model -> server and the server's own name of the tool."""


class Worker:
    """One taskset and the episodes on it."""

    def __init__(self) -> None:
        self._episodes: dict[str, Episode] = {}
        self._numbers = itertools.count()

    async def load(self, taskset: str, most: int) -> dict[str, Any]:
        """The taskset's first tasks."""
        config = vf.taskset_config_type(taskset)(id=taskset)
        self._taskset = vf.load_taskset(config)
        self._tasks = list(self._taskset.take(most))
        if not self._tasks:
            raise Refused("it has no task")
        _check(taskset, self._tasks[0])
        return {"tasks": [_shown(task) for task in self._tasks]}

    async def open(self, index: int, key: str, ended: list[str]) -> dict[str, Any]:
        """A fresh episode of a task, and its tools; the ended ones are forgotten."""
        for old in ended:
            await self._close(old)
        task = self._tasks[index]
        if task.key != key:
            raise Refused(f"task {index} is no longer the one that was recorded")
        state = state_cls(type(task))()
        toolsets = [*type(task).toolsets(task.config)]
        toolsets += type(self._taskset).toolsets(self._taskset.config)
        episode = Episode(task, state, [])
        for toolset in toolsets:
            await self._serve(episode, toolset)
        # The process in it: an episode of a worker before this one is none of its.
        number = f"{os.getpid()}-{next(self._numbers)}"
        self._episodes[number] = episode
        return {"episode": number, "tools": await _tools(episode)}

    async def _serve(self, episode: Episode, toolset: Any) -> None:
        if getattr(toolset.config, "url", None):
            raise Refused(f"its tools are at {toolset.config.url}")
        # In a launched server the state comes from and goes to its host; here it is the host's own.
        wanted = toolset._state_cls
        if not isinstance(episode.state, wanted):
            if type(episode.state) is not vf.State:
                raise Refused(f"its tools want the state {wanted.__name__}")
            episode.state = wanted()

        async def pull() -> Any:
            return episode.state if isinstance(episode.state, wanted) else wanted()

        async def push(before: bytes) -> None:
            del before

        toolset._pull_state, toolset._push_state = pull, push
        await toolset.setup()
        await toolset.setup_task(episode.task.data)
        server = MCPServer(toolset.server_name or type(toolset).__name__)
        toolset.register(server)
        episode.servers.append((toolset, server))

    async def call(self, episode: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A tool's value as text."""
        server, name = self._episodes[episode].names[tool]
        try:
            result = await server.call_tool(name, arguments)
        except Exception as error:
            raise Fault(str(error)) from error
        text = "\n".join(getattr(part, "text", "") for part in result.content)
        if result.is_error:
            raise Fault(text)
        return {"text": text}

    async def score(self, episode: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Rewards and metrics of the conversation that follows the task's prompt."""
        one = self._episodes[episode]
        trace = _trace(one, messages)
        await one.task.score(trace)
        rewards = {
            name: [found.score, found.weight] if found else None
            for name, found in trace.rewards.items()
        }
        return {"rewards": rewards, "metrics": dict(trace.metrics)}

    async def _close(self, number: str) -> None:
        episode = self._episodes.pop(number, None)
        for toolset, _ in episode.servers if episode else ():
            await toolset._exit_stack.aclose()


def _check(taskset: str, task: Any) -> None:
    """
    Raises:
        Refused: the taskset cannot be had without its own runner.
    """
    kind = type(task)
    if vf.environment_class(taskset) is not vf.SingleAgentEnv:
        raise Refused("its environment drives the conversation itself")
    if kind.NEEDS_CONTAINER or task.data.image:
        raise Refused("it needs a container")
    for hook in ("setup", "finalize"):
        if getattr(kind, hook) is not getattr(vf.Task, hook):
            raise Refused(f"its {hook} hook needs a runtime")
    if task.config.judges:
        raise Refused("it is judged by a model")
    for function in task.hooks("reward"):
        wanted = inspect.signature(function).parameters.get("runtime")
        if wanted is not None and wanted.default is inspect.Parameter.empty:
            raise Refused(f"its reward {function.__name__} needs a runtime")


def _prompt(data: Any) -> list[dict[str, Any]]:
    if data.prompt is None:
        raise Refused("its user opens the conversation")
    if isinstance(data.prompt, str):
        found: list[Any] = [vf.UserMessage(content=data.prompt)]
    else:
        found = list(data.prompt)
    if data.system_prompt:
        found.insert(0, vf.SystemMessage(content=data.system_prompt))
    if not all(isinstance(message.content, str) for message in found):
        raise Refused("its prompts hold more than text")
    return [message.model_dump(mode="json", exclude_none=True) for message in found]


def _shown(task: Any) -> dict[str, Any]:
    answer = getattr(task.data, "answer", None)
    return {
        "messages": _prompt(task.data),
        "key": task.key,
        "name": task.data.name or "",
        "answer": answer if isinstance(answer, str) else "",
    }


async def _tools(episode: Episode) -> list[dict[str, Any]]:
    specs = []
    for toolset, server in episode.servers:
        for tool in await server.list_tools():
            prefix = f"{toolset.server_name}_" if toolset.server_name else ""
            name = f"{prefix}{tool.name}"
            episode.names[name] = (server, tool.name)
            specs.append(
                {
                    "name": name,
                    "description": tool.description or "",
                    "parameters": tool.input_schema,
                }
            )
    return specs


def _trace(one: Episode, messages: list[dict[str, Any]]) -> Any:
    """The conversation as the package's own runner would have recorded it."""
    data = one.task.data
    seen = [(message, False) for message in _prompt(data)]
    seen += [(message, message["role"] == "assistant") for message in messages]
    kinds = {
        "system": vf.SystemMessage,
        "user": vf.UserMessage,
        "assistant": vf.AssistantMessage,
        "tool": vf.ToolMessage,
    }
    nodes = [
        MessageNode(
            parent=place - 1 if place else None,
            message=kinds[message["role"]].model_validate(message),
            sampled=sampled,
        )
        for place, (message, sampled) in enumerate(seen)
    ]
    trace: Any = vf.Trace(
        task=vf.TraceTask(type=type(one.task).__name__, data=data, key=one.task.key),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        nodes=nodes,
        is_completed=True,
        ok=True,
    )
    trace.state = one.state
    return trace


def main() -> None:
    """Serves until standard input ends."""
    # What the package prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker, loop = Worker(), asyncio.new_event_loop()
    for line in sys.stdin:
        request = json.loads(line)
        verb, timeout = request.pop("verb"), request.pop("seconds")
        try:
            work = getattr(worker, verb)(**request)
            answer = {"ok": loop.run_until_complete(asyncio.wait_for(work, timeout))}
        except Refused as error:
            answer = {"error": str(error), "kind": "refused"}
        except Fault as error:
            answer = {"error": str(error), "kind": "fault"}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "kind": "failed"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
