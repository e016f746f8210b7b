"""What every environment with tools needs: tools from plain methods, and scores of bare answers.

A method's type hints become its JSON Schema, its docstring what the model reads.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from macaron.environments.base import Score, Task, WorldEnvironment
from macaron.harness.tools import Tool


def tool(function: Callable[..., Any]) -> Tool:
    """A tool that calls the function with the arguments by name.

    Args:
        function: typed, with a docstring; it returns a JSON value, and raises ToolFault where the
            model did wrong.
    """
    plain = getattr(function, "__func__", function)
    return Tool(
        name=function.__name__,
        description=inspect.cleandoc(function.__doc__ or ""),
        parameters=_parameters(plain, plain is not function),
        call=lambda arguments: function(**arguments),
    )


@cache
def _parameters(function: Callable[..., Any], bound: bool) -> dict[str, Any]:
    # Any object does for self: only the signature is read.
    seen: Any = function.__get__(object()) if bound else function
    schema: dict[str, Any] = _plain(TypeAdapter(seen).json_schema())
    return schema


def _plain(schema: Any) -> Any:
    """The schema without the titles that pydantic makes from names."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # A property may be called "title"; what pydantic adds is a text.
    return {
        key: _plain(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def verify_untouched(
    environment: WorldEnvironment, tasks: Sequence[Task], answers: Sequence[str]
) -> list[Score]:
    """Scores of answers alone, each in a fresh world that no tool has touched.

    It is the `verify` of an environment with a world: what an answer without deeds is worth.
    """
    pairs = zip(tasks, answers, strict=True)
    return [environment.world(task).score(answer) for task, answer in pairs]
