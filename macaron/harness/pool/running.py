"""Running a tool's source: in a sandboxed process, in globals of its own, and never here.

A tool that calls none of the session's tools is a job of the sandbox; one that does runs in a
namespace, where its calls travel to the host and back.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from macaron.harness.namespace import Namespace
from macaron.harness.pool.references import plain
from macaron.harness.sandbox import Job, Result
from macaron.pool.candidate import Candidate

ENTRY = "_call"
"""The function that the sandbox calls; no tool's name begins so."""
ANSWER = "_answer"
"""The host's function that takes a result out of a namespace."""

Use = Callable[[str, dict[str, Any]], Any]
"""A call of one of the session's tools: name and arguments -> value."""

_LOADER = """\
def _load(source, name, calls):
    space = {"__name__": "pool", "ToolError": ToolError}
    space.update({call: globals()[call] for call in calls})
    exec(compile(source, "<tool " + name + ">", "exec"), space)
    return space[name]
"""


def job(tool: Candidate, arguments: Sequence[Mapping[str, Any]]) -> Job:
    """The tool on arguments, one call after the other in one process."""
    code = f"{tool.source}\ndef {ENTRY}(arguments):\n    return {tool.name}(**arguments)\n"
    return Job(code, call=ENTRY, data=tuple(_as_sent(a) for a in arguments))


def definitions(tools: Iterable[Candidate]) -> str:
    """Code that defines the tools in a namespace which has the tools that they call.

    Each function has globals of its own: it can't come to depend on the session's variables,
    which its trials didn't have, and the session's code can't redefine what it uses.
    """
    loads = [f"{t.name} = _load({t.source!r}, {t.name!r}, {list(t.calls)!r})" for t in tools]
    return "\n".join([_LOADER, *loads, "del _load"]) if loads else ""


def call_in(
    namespace: Namespace, tool: Candidate, arguments: Mapping[str, Any], use: Use
) -> Result:
    """One call of a tool that `definitions` has defined in a namespace of its own.

    Args:
        namespace: no session's.
        tool: what to call.
        arguments: JSON values by name.
        use: makes the calls that the tool makes; what it raises that has a `text` the tool sees
            as a ToolError.
    """
    found: list[Any] = []
    sent = json.dumps(_as_sent(arguments))
    cell = f"{ANSWER}(value={tool.name}(**__import__('json').loads({sent!r})))"
    host: dict[str, Any] = {ANSWER: lambda given: found.append(given.get("value"))}
    ran = namespace.run(cell, host | {name: _bound(use, name) for name in tool.calls})
    if ran.outcome == "ok" and len(found) != 1:
        return Result("killed")
    return Result(ran.outcome, tuple(found[:1]), _last(ran.error))


def define_in(namespace: Namespace, tool: Candidate) -> Result:
    """Defines a tool in a namespace of its own."""
    names = {name: _bound(_nothing, name) for name in tool.calls}
    ran = namespace.run(definitions([tool]), names)
    return Result(ran.outcome, error=_last(ran.error))


def fault_kind(result: Result) -> str:
    """The name of an exception, or what ended the run; never its text, which the tool writes."""
    if result.outcome != "error":
        return result.outcome
    name = re.match(r"[A-Za-z_]\w{0,39}", result.error)
    return name.group() if name else "error"


def _bound(use: Use, name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda arguments: use(name, arguments)


def _nothing(name: str, arguments: dict[str, Any]) -> None:
    """No call is made while a tool is defined."""


def _as_sent(arguments: Mapping[str, Any]) -> Any:
    # Through JSON: what goes in is what a caller could have sent.
    return json.loads(json.dumps(plain(arguments), allow_nan=False))


def _last(error: str) -> str:
    """The exception, without the lines that led to it."""
    return error.rstrip().rpartition("\n")[2]
