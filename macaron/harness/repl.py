"""The REPL surface: a fenced Python block is a cell, a response without one is the answer.

Values stay in the namespace; only what a cell prints goes back to the model. Tools are functions
there.
"""

import json
import keyword
import re
from collections.abc import Mapping
from typing import Any

from macaron.harness.calls import Call, Parsed
from macaron.harness.cut import share
from macaron.harness.space import Cell, Functions, Space
from macaron.harness.surface import Introduction
from macaron.harness.tools import Tool, ToolBox
from macaron.harness.use import TurnTools

CELL = "python"
"""The name that a cell has among a response's calls."""
# A block that is not closed ends with the response: a stop text may have cut its fence.
_BLOCK = re.compile(r"^```(?:python|py)[ \t]*\n(.*?)(?:^```[ \t]*$|\Z)", re.M | re.S)
_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}


class Repl:
    """Python cells in a namespace."""

    def __init__(self, result_chars: int, space: Space) -> None:
        """
        Args:
            result_chars: printed characters that go back to the model, a round.
            space: the session's namespace.
        """
        self._limit, self._space = result_chars, space

    def introduce(self, system: str, box: ToolBox, shows_tools: bool) -> Introduction:
        """The system prompt lists the functions; a template would ask for tool calls."""
        if not len(box):
            return Introduction(system)
        listed = "\n".join(["Functions:", *(signature(tool) for tool in box)])
        return Introduction(f"{system}\n\n{listed}" if system else listed)

    def read(self, text: str) -> Parsed:
        """The cells, and the text outside of them."""
        cells = tuple(
            Call(CELL, json.dumps({"code": code}, ensure_ascii=False))
            for code in _BLOCK.findall(text)
        )
        return Parsed(_BLOCK.sub("", text).strip() if cells else text, cells)

    def act(self, parsed: Parsed, tools: TurnTools) -> list[str]:
        """What each cell printed; after one that failed, the others are not run."""
        results: list[str] = []
        failed = False
        for call in parsed.calls:
            if failed:
                results.append("not run: the cell before it failed")
                continue
            cell, notes = self._run(json.loads(call.arguments)["code"], tools)
            failed = cell.outcome != "ok"
            results.append(_shown(cell, notes))
        return share(results, self._limit)

    def _run(self, code: str, tools: TurnTools) -> tuple[Cell, list[str]]:
        notes: list[str] = []
        cell = self._space.run(code, _functions(tools, notes))
        if tools.broken is not None:
            # The cell's code may have caught it, but the bug is ours.
            raise tools.broken
        return cell, notes


def _functions(tools: TurnTools, notes: list[str]) -> Functions:
    def function(name: str) -> Any:
        def call(arguments: dict[str, Any]) -> Any:
            used = tools.use(name, arguments)
            notes.extend(used.notes)
            return used.value

        return call

    return {identifier(tool.name): function(tool.name) for tool in tools.box}


def _shown(cell: Cell, notes: list[str]) -> str:
    printed = cell.printed.rstrip("\n")
    more = "[cut: more was printed]" if cell.cut else ""
    parts = [part for part in (printed, more, cell.error, *notes) if part]
    return "\n".join(parts) or "(nothing was printed)"


def signature(tool: Tool) -> str:
    """The tool as the head of a Python function, with its description."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    needed = set(tool.parameters.get("required", ()))
    names = sorted(properties, key=lambda name: name not in needed)
    arguments = [
        f"{name}: {_type(properties[name])}{'' if name in needed else ' = ...'}" for name in names
    ]
    said = " ".join(tool.description.split())
    return f"{identifier(tool.name)}({', '.join(arguments)})" + (f"  # {said}" if said else "")


def _type(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = kind if isinstance(kind, list) else [kind]
    return " | ".join(_TYPES.get(str(one), "object") for one in kinds)


def identifier(name: str) -> str:
    """The tool's name as a Python name."""
    word = re.sub(r"\W", "_", name)
    return f"_{word}" if word[:1].isdigit() or keyword.iskeyword(word) else word
