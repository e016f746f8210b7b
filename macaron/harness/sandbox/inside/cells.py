"""Running cells: code in one dictionary, what it prints, and its faults as short texts."""

from __future__ import annotations

import ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, TracebackType
    from typing import Any

    Ask = Callable[[str, dict[str, Any], int], Any]
    Limits = dict[str, Any]

KEPT_SOURCES = 200
FRAMES, LINE_CHARS, ERROR_CHARS = 8, 160, 2000
_compile, _exec, _eval, _repr, _parse = compile, exec, eval, repr, ast.parse


class ToolError(Exception):
    """A tool said no; its text says why."""


class Overflow(BaseException):
    """A cell printed far more than anyone will read."""


class Capture:
    """Stands in for stdout: keeps the head of what is printed, and counts the rest."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, keep: int, most: int) -> None:
        self.parts: list[str] = []
        self.size, self.keep, self.most = 0, keep, most

    def write(self, text: str) -> int:
        """Keeps what there is room for."""
        room = self.keep - self.size
        self.size += len(text)
        if room > 0:
            self.parts.append(str(text[:room]))
        if self.size > self.most:
            raise Overflow
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""

    def isatty(self) -> bool:
        """It is no terminal."""
        return False

    def text(self) -> str:
        """What was kept, and how much was not."""
        lost = self.size - self.keep
        kept = "".join(self.parts)
        return f"{kept}\n[{lost} more characters were cut]" if lost > 0 else kept


class Space:
    """One session's namespace."""

    def __init__(self, ask: Ask, limits: Limits) -> None:
        self._ask, self._limits = ask, limits
        self._names: dict[str, Any] = {"__name__": "__main__", "ToolError": ToolError}
        self._tools: dict[str, Any] = {}
        self._sources: dict[str, list[str]] = {}
        self._count = 0
        self.seeded = False

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """What became of a cell: outcome, printed, cut, error."""
        self._count += 1
        name = f"<cell {self._count}>"
        self._sources[name] = order["code"].split("\n")
        while len(self._sources) > KEPT_SOURCES:
            del self._sources[next(iter(self._sources))]
        self._offer(order["tools"])
        capture = Capture(order["chars"], self._limits["flood_chars"])
        outcome, error = self._outcome(order["code"], name, capture)
        if capture.size > capture.most:
            outcome, error = "output", "it printed without end"
        cut = capture.size > capture.keep
        return {"outcome": outcome, "printed": capture.text(), "cut": cut, "error": error}

    def _outcome(self, code: str, name: str, capture: Capture) -> tuple[str, str]:
        sys.stdout = sys.stderr = capture
        try:
            self._execute(code, name, capture)
        except MemoryError:
            return "memory", ""
        except Overflow:
            return "output", ""
        except BaseException as fault:
            try:
                return "error", self._trace(fault)
            except BaseException:
                return "error", "an exception whose text cannot be read"
        return "ok", ""

    def _execute(self, code: str, name: str, capture: Capture) -> None:
        tree = _parse(code, name)
        last = tree.body.pop() if tree.body and type(tree.body[-1]) is ast.Expr else None
        _exec(_made(tree, name, "exec"), self._names)
        if last is not None:
            value = _eval(_made(ast.Expression(last.value), name, "eval"), self._names)
            if value is not None:
                capture.write(_repr(value) + "\n")

    def _offer(self, tools: dict[str, list[str]]) -> None:
        """Binds tools that are new; a name that the session gave another meaning keeps it."""
        for name in [n for n in self._tools if n not in tools]:
            if self._names.get(name) is self._tools.pop(name):
                del self._names[name]
        for name, parameters in tools.items():
            if name not in self._tools:
                self._tools[name] = self._names[name] = self._function(name, parameters)

    def _function(self, name: str, parameters: list[str]) -> Callable[..., Any]:
        ask, limit = self._ask, self._limits["message_bytes"]

        def tool(*values: Any, **named: Any) -> Any:
            if len(values) > len(parameters):
                raise ToolError(f"{name}: give arguments by name")
            given = dict(zip(parameters, values, strict=False))
            if twice := given.keys() & named.keys():
                raise ToolError(f"{name}: {sorted(twice)[0]} was given twice")
            return ask(name, given | named, limit)

        tool.__name__ = tool.__qualname__ = name
        return tool

    def _trace(self, fault: BaseException) -> str:
        """The cell's own lines on the way to the fault, and the fault."""
        said = f"{type(fault).__name__}: {_said(fault)}".removesuffix(": ")
        if isinstance(fault, SyntaxError) and str(fault.filename).startswith("<cell "):
            place = self._line(str(fault.filename), fault.lineno or 0, "")
            return f"{place}\n{type(fault).__name__}: {fault.msg}"[:ERROR_CHARS]
        lines = [line for line in self._lines(fault.__traceback__) if line]
        if len(lines) > FRAMES:
            lines[FRAMES // 2 : -FRAMES // 2] = [f"  ... {len(lines) - FRAMES} more"]
        return "\n".join([*lines, said])[:ERROR_CHARS]

    def _lines(self, trace: TracebackType | None) -> list[str]:
        found = []
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename.startswith("<cell "):
                where = "" if code.co_name == "<module>" else f", in {code.co_name}"
                found.append(self._line(code.co_filename, trace.tb_lineno, where))
            trace = trace.tb_next
        return found

    def _line(self, name: str, number: int, where: str) -> str:
        source = self._sources.get(name, [])
        text = source[number - 1].strip()[:LINE_CHARS] if 0 < number <= len(source) else ""
        return f"  {name[1:-1]}, line {number}{where}: {text}"


def _made(tree: Any, name: str, mode: str) -> CodeType:
    return _compile(tree, name, mode, dont_inherit=True)  # type: ignore[no-any-return]


def _said(fault: BaseException) -> str:
    return str(fault)[:ERROR_CHARS]
