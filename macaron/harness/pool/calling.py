"""Calling what was promoted, on both surfaces."""

from collections.abc import Callable
from typing import Any

from macaron.harness.namespace import Namespace
from macaron.harness.pool.judge import Uses
from macaron.harness.pool.live import Snapshot
from macaron.harness.pool.running import Use, call_in, define_in, definitions, fault_kind, job
from macaron.harness.sandbox import Result, Sandbox
from macaron.harness.tools import Tool, ToolFault
from macaron.pool.candidate import Candidate

_ENDS = {
    "timeout": "took too long",
    "memory": "used too much memory",
    "output": "returned or printed too much",
    "killed": "ended its process",
}


def functions(
    snapshot: Snapshot,
    sandbox: Sandbox,
    uses: Uses,
    use: Use | None = None,
    namespaces: Callable[[], Namespace] = Namespace,
) -> list[Tool]:
    """The tools as functions: each call runs in a sandboxed process of its own.

    Args:
        snapshot: the session's.
        sandbox: with the limits of the HCP's workspace.
        uses: counts what becomes of the calls.
        use: makes the calls that tools make, through the session's hooks; without it, tools that
            call others are left out.
        namespaces: opens what such a tool runs in.
    """

    def run(tool: Candidate, arguments: dict[str, Any]) -> Result:
        if use is None or not tool.calls:
            return sandbox.run([job(tool, [arguments])])[0]
        with namespaces() as namespace:
            made = define_in(namespace, tool)
            return made if made.outcome != "ok" else call_in(namespace, tool, arguments, use)

    able = [tool for tool in snapshot.tools.values() if use is not None or not tool.calls]
    return [_function(tool, run, uses) for tool in able]


def _function(
    tool: Candidate, run: Callable[[Candidate, dict[str, Any]], Result], uses: Uses
) -> Tool:
    def call(arguments: dict[str, Any]) -> Any:
        result = run(tool, arguments)
        if result.outcome == "invalid":
            raise ToolFault(f"{tool.name} could not be run now")
        if result.outcome == "ok" and len(result.outputs) == 1:
            uses.note(tool.digest)
            return result.outputs[0]
        uses.note(tool.digest, fault_kind(result))
        why = _ENDS.get(result.outcome, f"raised {result.error}")
        raise ToolFault(f"{tool.name} {why}")

    return Tool(tool.name, tool.description, tool.parameters, call)


def namespace_code(snapshot: Snapshot) -> str:
    """Code that defines the tools in a session's namespace, to be run as its first cell."""
    return definitions(snapshot.tools.values())
