"""A session's namespace: opened when it is first used, with a turn as its transaction."""

from collections.abc import Callable, Mapping
from typing import Any

from macaron.harness.namespace import Cell, Namespace
from macaron.harness.sandbox.jobs import SandboxError
from macaron.harness.tools import Tool, ToolFault

SHELL = "shell"
_SHELL_PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}
ENDED = {
    "timeout": "it took too long",
    "memory": "it took too much memory",
    "output": "it printed too much",
    "killed": "it was ended by the sandbox",
}
"""Outcome of a run that the sandbox ended -> why."""


class SandboxFailedError(Exception):
    """The sandbox itself failed, through no fault of the code that ran in it. It ends the turn."""


class Space:
    """At most one namespace."""

    def __init__(self, acquire: Callable[[], Namespace]) -> None:
        """
        Args:
            acquire: opens a namespace that nobody used.
        """
        self._acquire = acquire
        self._namespace: Namespace | None = None
        self._touched = False
        self.lost = False
        """Whether the namespace of earlier turns was lost, and nobody was told yet."""

    def run(self, code: str, tools: Mapping[str, Any], chars: int) -> Cell:
        """Runs a cell of the present turn.

        Args:
            code: Python.
            tools: functions in it.
            chars: of printed text to keep.

        Raises:
            SandboxFailedError: the sandbox failed.
        """
        return self._use(lambda namespace: namespace.run(code, tools, chars=chars))

    def shell(self, command: str, chars: int) -> Cell:
        """Runs a shell command on the namespace's files, otherwise as `run`."""
        return self._use(lambda namespace: namespace.shell(command, chars=chars))

    def commit(self) -> None:
        """Keeps what the turn did."""
        if self._touched and self._namespace is not None:
            self._namespace.commit()
        self._touched = False

    def restore(self) -> None:
        """Undoes what the turn did. A namespace that was lost begins anew, empty."""
        if self._touched and self._namespace is not None:
            try:
                self._namespace.restore()
            except SandboxError:
                self.lost = True
        self._touched = False

    def close(self) -> None:
        """Gives the namespace up."""
        if self._namespace is not None:
            self._namespace.close()
        self._namespace, self._touched = None, False

    def _use(self, do: Callable[[Namespace], Cell]) -> Cell:
        try:
            cell = do(self._opened())
        except SandboxError as error:
            raise SandboxFailedError(str(error)) from error
        if cell.outcome == "invalid":
            raise SandboxFailedError(cell.error)
        return cell

    def _opened(self) -> Namespace:
        if self._namespace is None:
            self._namespace = self._acquire()
        if not self._touched:
            self._namespace.snapshot()
            self._touched = True
        return self._namespace


def complaint(cell: Cell) -> str:
    """What went wrong in a cell or command, for the model; "" where nothing did."""
    why = ENDED.get(cell.outcome, "")
    undone = f"{why}; all that it did was undone" if why else ""
    return "\n".join(part for part in (cell.error, undone) if part)


def shell_tool(space: Space, chars: int) -> Tool:
    """`shell`: a command on the files of the session's namespace.

    Args:
        space: the session's.
        chars: of printed text to keep.
    """

    def run(arguments: dict[str, Any]) -> str:
        cell = space.shell(arguments["command"], chars)
        if cell.outcome == "ok":
            return cell.printed
        raise ToolFault("\n".join(part for part in (cell.printed, complaint(cell)) if part))

    return Tool(SHELL, "Runs a shell command.", _SHELL_PARAMETERS, run)
