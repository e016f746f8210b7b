"""The workbench: `save_tool` and `promote_tool`, by which a model turns a helper into a tool.

The model learns whether a tool passed and how many trials it did, and nothing else of them: not
what they were, not which failed, not how.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from macaron.harness.pool.judge import promote
from macaron.harness.pool.live import LivePool, Origin
from macaron.harness.pool.references import Purpose
from macaron.harness.pool.schema import check_fit, derive
from macaron.harness.pool.source import (
    check_name,
    free_names,
    function_name,
    normalise,
    parse_function,
    shape,
    summary,
)
from macaron.harness.pool.trials import Examiner, Policy, TrialsInvalid
from macaron.harness.tools import Tool, ToolFault
from macaron.pool.candidate import Candidate

MAX_SAVED = 16
"""Candidates that one session may leave behind."""
_TEXT = {"type": "string"}


class Workbench:
    """One session's way into the pool.

    Args:
        pool: where candidates go.
        examiner: who tries them.
        policy: the HCP's rules.
        origin: the session.
        taken: names of the session's other tools.
    """

    def __init__(
        self,
        pool: LivePool,
        examiner: Examiner,
        policy: Policy,
        origin: Origin,
        taken: Sequence[str] = (),
    ) -> None:
        self._pool, self._examiner, self._policy = pool, examiner, policy
        self._origin = origin
        self._taken = frozenset((*taken, "save_tool", "promote_tool"))
        self._purposes = {p.name: p for p in examiner.references.purposes()}
        self._saved: dict[str, str] = {}
        self._kept: set[str] = set()

    def tools(self) -> tuple[Tool, Tool]:
        """The two, with what they can be used for in their descriptions."""
        return self._save_tool(), self._promote_tool()

    def save(self, source: str, name: str = "") -> str:
        """Keeps a function as a candidate; returns what the model reads.

        Raises:
            ToolFault: it can't be a tool.
        """
        tool = candidate(source, name, self._purposes, self._taken)
        if tool.digest not in self._kept and len(self._kept) >= MAX_SAVED:
            raise ToolFault(f"a session saves at most {MAX_SAVED} candidates")
        self._pool.save(tool, self._origin)
        self._kept.add(tool.digest)
        self._saved[tool.name] = tool.digest
        return f"saved {tool.name} as a candidate ({tool.digest[:12]}); {self._next(tool)}"

    def _next(self, tool: Candidate) -> str:
        if tool.name in self._purposes:
            return "promote_tool tries it, and sessions after this one can call it if it passes"
        return "there are no trials for that name, so that it stays one"

    def promote(self, name: str) -> str:
        """Tries the candidate of that name that was saved last; returns what the model reads.

        Raises:
            ToolFault: there is none, or it can't be tried, or not now.
        """
        digest = self._find(name)
        tool = self._pool.tool(digest)
        purpose = self._purposes.get(name)
        if purpose is None:
            raise ToolFault(f"there are no trials for {name}: it stays a candidate")
        check_fit(parse_function(tool.source, tool.name, purpose.tools), purpose.parameters)
        try:
            report = promote(self._pool, digest, self._examiner, self._policy, self._origin)
        except TrialsInvalid as error:
            raise ToolFault("the trials could not be run now; nothing is decided") from error
        score = f"{report.passed} of {report.trials} trials passed, {report.needed} are needed"
        if report.good:
            return f"promoted {name}: {score}; sessions that begin from now on can call it"
        return f"not promoted: {score}; {name} must change to be tried again"

    def _find(self, name: str) -> str:
        """The session's own, or the newest one saved under this pair or an ancestor."""
        own = self._saved.get(name)
        if own is not None:
            return own
        found = [e for e in self._pool.state().of_name(name) if e.pairs & self._pool.pairs]
        if not found:
            raise ToolFault(f"no candidate is named {name!r:.60}; save_tool saves one")
        return found[-1].digest

    def _save_tool(self) -> Tool:
        known = "; ".join(_described(purpose) for purpose in self._purposes.values())
        return Tool(
            "save_tool",
            "Save one Python function as a candidate for a tool. It may use its arguments, plain "
            "built-ins, imports of its own and the tools named here, and returns a JSON value. "
            f"Trials are known for: {known or 'nothing'}.",
            _object({"source": _TEXT, "name": _TEXT}, ["source"]),
            lambda arguments: self.save(**_texts(arguments, "source", "name")),
        )

    def _promote_tool(self) -> Tool:
        return Tool(
            "promote_tool",
            "Have a saved candidate tried in private on cases that it has not seen. If it passes, "
            "later sessions can call it.",
            _object({"name": _TEXT}, ["name"]),
            lambda arguments: self.promote(**_texts(arguments, "name")),
        )


def candidate(
    source: str,
    name: str = "",
    purposes: Mapping[str, Purpose] = MappingProxyType({}),
    taken: frozenset[str] = frozenset(),
) -> Candidate:
    """The candidate in a model's text.

    What later sessions read of it is the purpose's own text where there is one: a model that has
    been talked into something can't pass that on in a description.

    Args:
        source: of the function.
        name: of the function, where the model says it too.
        purposes: what there are references for, by name.
        taken: names that it can't have.

    Raises:
        ToolFault: it can't be a tool.
    """
    text = normalise(source)
    try:
        # What it may call hangs on its name, which is known only once it is parsed.
        offered = _offered(purposes.get(function_name(text)))
        function = parse_function(text, name, offered)
        parameters = derive(function)
        calls = tuple(sorted(free_names(text) & set(offered)))
        shape(text)
    except RecursionError as error:
        raise ToolFault("the source is nested too deeply") from error
    check_name(function.name, taken)
    purpose = purposes.get(function.name)
    if purpose is None:
        return Candidate(function.name, summary(function), parameters, text)
    check_fit(function, purpose.parameters)
    return Candidate(function.name, purpose.description, dict(purpose.parameters), text, calls)


def _offered(purpose: Purpose | None) -> tuple[str, ...]:
    return purpose.tools if purpose else ()


def _texts(arguments: Mapping[str, Any], *names: str) -> dict[str, str]:
    """The named texts among the arguments: an HCP may describe the tool in its own words."""
    given = {name: arguments[name] for name in names if name in arguments}
    if names[0] not in given or not all(isinstance(text, str) for text in given.values()):
        raise ToolFault(f"it takes texts: {', '.join(names)}; {names[0]} is needed", "malformed")
    return given


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _described(purpose: Purpose) -> str:
    arguments = ", ".join(purpose.parameters.get("properties", {}))
    using = f" It may call {', '.join(purpose.tools)}." if purpose.tools else ""
    return f"{purpose.name}({arguments}): {purpose.description}{using}"
