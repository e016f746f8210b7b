"""Tools: what a specialist may call, and the one way to call it.

Whatever a model writes as a call, the answer is text that it can read; only a fault of ours
raises. Arguments are checked against the tool's schema before the tool sees them.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry

FaultKind = Literal["unknown", "malformed", "failed", "dead", "refused"]
"""No such tool; arguments that its schema forbids; the tool says no; its server doesn't answer;
a hook forbids the call."""

MAX_FAULT_CHARS = 500
"""A fault quotes what was wrong, and that can be long."""


class ToolFault(Exception):  # noqa: N818  (a word of the model's world, no error of ours)
    """A call that could not be done; its text is for the model to read."""

    def __init__(self, text: str, kind: FaultKind = "failed") -> None:
        super().__init__(text)
        self.kind = kind

    @property
    def text(self) -> str:
        """What the model reads."""
        return str(self)[:MAX_FAULT_CHARS]


@dataclass(frozen=True)
class Tool:
    """One function that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of an object."""
    call: Callable[[dict[str, Any]], Any] = field(compare=False)
    """Arguments -> a JSON value; raises ToolFault where the model did wrong."""

    @property
    def spec(self) -> dict[str, Any]:
        """The tool in OpenAI's form, as chat templates take it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}

    @cached_property
    def _validator(self) -> Draft202012Validator:
        # An empty registry: a schema's reference is never fetched from the network.
        return Draft202012Validator(dict(self.parameters), registry=Registry())

    def check(self, arguments: Any) -> dict[str, Any]:
        """The arguments, once the schema allows them.

        Raises:
            ToolFault: they are no object, or the schema forbids them.
        """
        if not isinstance(arguments, dict):
            kind = type(arguments).__name__
            raise ToolFault(
                f"{self.name}: arguments must be a JSON object, not {kind}", "malformed"
            )
        error = best_match(self._validator.iter_errors(arguments))
        if error is not None:
            place = "".join(f".{part}" for part in error.absolute_path)
            raise ToolFault(f"{self.name}{place}: {error.message}", "malformed")
        return arguments


class ToolBox:
    """The tools that one specialist may use in one session."""

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            names = [tool.name for tool in tools]
            raise ValueError(f"tools share a name: {names}")

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def specs(self) -> list[dict[str, Any]]:
        """The tools in OpenAI's form, in their order."""
        return [tool.spec for tool in self]

    def tool(self, name: str) -> Tool:
        """The tool of that name.

        Raises:
            ToolFault: there is none.
        """
        if name not in self._tools:
            known = ", ".join(self._tools) or "none"
            raise ToolFault(f"no tool is named {name!r}; the tools are: {known}", "unknown")
        return self._tools[name]

    def run(self, name: str, arguments: Any) -> Any:
        """The tool's value for arguments that are JSON values.

        Raises:
            ToolFault: the call is wrong, or the tool says no.
        """
        tool = self.tool(name)
        return tool.call(tool.check(arguments))

    def call(self, name: str, arguments_json: str) -> str:
        """The tool's value as text, or what was wrong with the call as text."""
        try:
            return as_text(self.run(name, parse_arguments(name, arguments_json)))
        except ToolFault as fault:
            return f"Error: {fault.text}"


def parse_arguments(name: str, arguments_json: str) -> Any:
    """The JSON value in the text; an empty text means no arguments.

    Raises:
        ToolFault: the text is no JSON.
    """
    if not arguments_json.strip():
        return {}
    try:
        return parse_json(arguments_json)
    except ToolFault as fault:
        raise ToolFault(f"{name}: the arguments are {fault.text}", "malformed") from fault


def parse_json(text: str) -> Any:
    """The JSON value in a text that a model wrote.

    Raises:
        ToolFault: the text is no JSON, or holds a number that is none (NaN, 1e999).
    """
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ToolFault(f"not JSON: {error}", "malformed") from error


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is too large")
    return number


def as_text(value: Any) -> str:
    """A tool's value as the model reads it: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
