"""One response as its client sees it; of the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable

from macaron.engines.base import Completion


class LocalTicket:
    """A `Ticket`."""

    def __init__(self, cancel: Callable[[], None], done: Callable[[], None]) -> None:
        """
        Args:
            cancel: asks the engine to end the response.
            done: is called once, when it has ended.
        """
        self.cached_tokens = 0
        self._cancel, self._done = cancel, done
        self._tokens: list[int] = []
        self._completion: Completion | None = None
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""
        return self._completion is not None or self._error is not None

    def push(self, tokens: list[int], cached: int) -> None:
        """As `Sink`."""
        self.cached_tokens = cached
        self._tokens += tokens
        self._changed.set()

    def finish(self, result: Completion) -> None:
        """As `Sink`."""
        if not self.ended:
            self._completion = result
            self._end()

    def fail(self, error: Exception) -> None:
        """As `Sink`."""
        if not self.ended:
            self._error = error
            self._end()

    def _end(self) -> None:
        self._changed.set()
        self._done()

    async def pieces(self) -> AsyncIterator[list[int]]:
        """As `Ticket`."""
        given = 0
        while True:
            if given < len(self._tokens):
                piece, given = self._tokens[given:], len(self._tokens)
                yield piece
            elif self._error is not None:
                raise self._error
            elif self.ended:
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    async def completion(self) -> Completion:
        """As `Ticket`."""
        async for _ in self.pieces():
            pass
        assert self._completion is not None
        return self._completion

    def cancel(self) -> None:
        """As `Ticket`."""
        if not self.ended:
            self._cancel()
