"""A session's Python namespace: taken when first used, and the turn's transaction around it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from macaron.harness.surface import SandboxFailedError

Functions = Mapping[str, Callable[[dict[str, Any]], Any]]


class Cell(Protocol):
    """What came of running code."""

    @property
    def outcome(self) -> str:
        """`ok`, or why it ended; `invalid` where the sandbox itself failed."""
        ...

    @property
    def printed(self) -> str:
        """What it printed."""
        ...

    @property
    def error(self) -> str:
        """The exception or limit it ended with."""
        ...

    @property
    def cut(self) -> bool:
        """Whether it printed more than was kept."""
        ...


class Namespace(Protocol):
    """A namespace that persists over cells."""

    def run(self, code: str, tools: Functions) -> Cell:
        """Runs a cell, with the tools as functions in it."""
        ...

    def snapshot(self) -> None:
        """Remembers the state."""
        ...

    def restore(self) -> None:
        """Goes back to the state that was remembered."""
        ...

    def commit(self) -> None:
        """Forgets the state that was remembered, and keeps the present one."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


class Space:
    """At most one namespace, opened when the session first runs code."""

    def __init__(self, acquire: Callable[[], Namespace] | None) -> None:
        self._acquire = acquire
        self._namespace: Namespace | None = None
        self._touched = False

    def run(self, code: str, tools: Functions) -> Cell:
        """Runs a cell of the present turn.

        Raises:
            SandboxFailedError: there is no namespace, or it failed.
        """
        namespace = self._opened()
        if not self._touched:
            namespace.snapshot()
            self._touched = True
        cell = namespace.run(code, tools)
        if cell.outcome == "invalid":
            raise SandboxFailedError(cell.error)
        return cell

    def commit(self) -> None:
        """Keeps what the turn did."""
        if self._touched and self._namespace is not None:
            self._namespace.commit()
        self._touched = False

    def restore(self) -> None:
        """Undoes what the turn did."""
        if self._touched and self._namespace is not None:
            self._namespace.restore()
        self._touched = False

    def close(self) -> None:
        """Gives the namespace up."""
        if self._namespace is not None:
            self._namespace.close()
        self._namespace, self._touched = None, False

    def _opened(self) -> Namespace:
        if self._namespace is None:
            if self._acquire is None:
                raise SandboxFailedError("the session was given no namespace to run code in")
            self._namespace = self._acquire()
        return self._namespace
