"""One response of an upstream server, from its request on."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from macaron.engines.base import Completion, SampleParams, StopReason
from macaron.engines.upstream.dialect import Chunk


class UpstreamTicket:
    """`Ticket`: filled by a task, read by any number of others."""

    def __init__(self, params: SampleParams) -> None:
        self._params = params
        self.cached_tokens = 0
        """Prompt tokens that were in the server's prefix cache, where it says so."""
        self.token_ids: list[int] = []
        self.finish: str | None = None
        self._logprobs: list[float] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begins the work that fills it."""
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._ended)
        return self._task

    def add(self, chunk: Chunk) -> None:
        """Takes what came."""
        self.token_ids += chunk.token_ids
        self._logprobs += chunk.logprobs
        self.finish = chunk.finish or self.finish
        self.cached_tokens = self.cached_tokens if chunk.cached is None else chunk.cached
        self._tell()

    async def pieces(self) -> AsyncIterator[list[int]]:
        """The token ids as they come, up to the response's end."""
        given = 0
        while True:
            news = self._news
            if given < len(self.token_ids):
                piece = self.token_ids[given:]
                given += len(piece)
                yield piece
            elif self._over():
                return
            else:
                await news.wait()

    async def completion(self) -> Completion:
        """The whole response, once it has ended."""
        while not self._over():
            await self._news.wait()
        return Completion(list(self.token_ids), list(self._logprobs), self._reason())

    def cancel(self) -> None:
        """Ends it now, and hangs up."""
        if self._task is not None:
            self._task.cancel()

    def _over(self) -> bool:
        """Whether it has ended; raises what it ended with."""
        if self._task is None or not self._task.done():
            return False
        if not self._task.cancelled() and (error := self._task.exception()):
            raise error
        return True

    def _reason(self) -> StopReason:
        stopped = bool(self.token_ids) and self.token_ids[-1] in self._params.stop_ids
        return "stop" if stopped or self.finish == "stop" else "length"

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            # Whether anybody asks for it or not, it is no unhandled one.
            task.exception()
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
