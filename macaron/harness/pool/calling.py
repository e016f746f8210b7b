"""Calling what was promoted, on both surfaces: a tool's source runs in a sandbox, never here."""

from collections.abc import Mapping
from typing import Any

from macaron.harness.pool.judge import Uses
from macaron.harness.pool.live import Snapshot
from macaron.harness.pool.trials import fault_kind, job
from macaron.harness.sandbox import Sandbox
from macaron.harness.tools import Tool, ToolFault
from macaron.pool.candidate import Candidate

_ENDS = {
    "timeout": "took too long",
    "memory": "used too much memory",
    "output": "returned or printed too much",
    "killed": "ended its process",
}

_LOADER = """\
def _load(source, name):
    space = {"__name__": "pool"}
    exec(compile(source, "<tool " + name + ">", "exec"), space)
    return space[name]
"""


def functions(snapshot: Snapshot, sandbox: Sandbox, uses: Uses) -> list[Tool]:
    """The tools as functions: each call runs in a sandboxed process of its own.

    Args:
        snapshot: the session's.
        sandbox: with the limits of the HCP's workspace.
        uses: counts what becomes of the calls.
    """
    return [_function(tool, sandbox, uses) for tool in snapshot.tools.values()]


def _function(tool: Candidate, sandbox: Sandbox, uses: Uses) -> Tool:
    def call(arguments: dict[str, Any]) -> Any:
        result = sandbox.run([job(tool, [arguments])])[0]
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
    """Code that defines the tools in a Python namespace, for a session's sandboxed process.

    Each function has globals of its own: it can't come to depend on the session's variables,
    which its trials didn't have, and the session's code can't redefine what it uses.
    """
    if not snapshot.tools:
        return ""
    loads = [f"{name} = _load({tool.source!r}, {name!r})" for name, tool in snapshot.tools.items()]
    return "\n".join([_LOADER, *loads, "del _load"])


def signatures(snapshot: Snapshot) -> Mapping[str, str]:
    """Name -> how a REPL's prompt describes the function."""
    return {
        name: f"{name}({', '.join(tool.parameters.get('properties', {}))}): {tool.description}"
        for name, tool in snapshot.tools.items()
    }
