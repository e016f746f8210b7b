"""The REPL surface: a fenced Python block is a cell, a response without one is the answer.

Values stay in the namespace; only what a cell prints goes back to the model. Tools are functions
there.
"""

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

from macaron.harness.calls import Call, Parsed
from macaron.harness.cut import share
from macaron.harness.namespace import Cell
from macaron.harness.space import Space, complaint
from macaron.harness.surface import Introduction
from macaron.harness.tools import Tool, ToolBox
from macaron.harness.use import TurnTools

CELL = "python"
"""The name that a cell has among a response's calls."""
NOTHING = "(nothing was printed)"
NOT_RUN = "(not run: the cell before it failed)"
LOST = "(the namespace of earlier turns was lost; this one began empty)"
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
        functions = {identifier(tool.name): Function(tool, tools) for tool in tools.box}
        ran: list[tuple[Cell, list[str]]] = []
        for call in parsed.calls:
            cell = self._space.run(json.loads(call.arguments)["code"], functions, self._limit)
            ran.append((cell, [note for f in functions.values() for note in f.take_notes()]))
            if cell.outcome != "ok":
                break
        left = len(parsed.calls) - len(ran)
        return self._shown(ran) + [NOT_RUN] * left

    def _shown(self, ran: Sequence[tuple[Cell, list[str]]]) -> list[str]:
        """The cells' printed texts and errors within the budget, then notices and notes."""
        printed = [cell.printed[: self._limit].rstrip("\n") for cell, _ in ran]
        shares = share([*printed, *(complaint(cell) for cell, _ in ran)], self._limit)
        results = []
        for n, (cell, notes) in enumerate(ran):
            rest = cell.printed[self._limit :].strip() if cell.cut else ""
            parts = [shares[n], rest, shares[len(ran) + n], *notes]
            results.append("\n".join(part for part in parts if part) or NOTHING)
        if self._space.lost and results:
            self._space.lost = False
            results[0] = f"{LOST}\n{results[0]}"
        return results


class Function:
    """A tool as a function of the namespace."""

    def __init__(self, tool: Tool, tools: TurnTools) -> None:
        self.parameters = tool.parameters
        """JSON Schema; the namespace takes the order of values by position from it."""
        self._name, self._tools = tool.name, tools
        self._notes: list[str] = []

    def __call__(self, arguments: dict[str, Any]) -> Any:
        used = self._tools.use(self._name, arguments)
        self._notes.extend(used.notes)
        return used.value

    def take_notes(self) -> list[str]:
        """The hooks' notes since they were last taken."""
        taken, self._notes = self._notes, []
        return taken


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
