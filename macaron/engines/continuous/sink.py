"""The way of results from the engine's thread to the event loop."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from macaron.engines.continuous.thread import EngineThread

T = TypeVar("T")


class LoopSink:
    """Carries a row's results to the loop."""

    def open(
        self,
        engine: EngineThread,
        push: Callable[[list[int], int], None],
        finish: Callable[[Any], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """Says where to, before the row is given to the engine."""
        self._engine, self._push, self._finish, self._fail = engine, push, finish, fail

    def push(self, tokens: list[int], cached: int) -> None:
        """As `Sink`."""
        self._engine.post(self._push, tokens, cached)

    def finish(self, result: Any) -> None:
        """As `Sink`."""
        self._engine.post(self._finish, result)

    def fail(self, error: Exception) -> None:
        """As `Sink`."""
        self._engine.post(self._fail, error)


def set_result(future: "asyncio.Future[T]") -> Callable[[T], None]:
    """Gives a future its result, where somebody still waits for it."""

    def give(value: T) -> None:
        if not future.done():
            future.set_result(value)

    return give


def set_exception(future: "asyncio.Future[T]") -> Callable[[Exception], None]:
    """Gives a future a fault, where somebody still waits for it."""

    def give(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    return give
