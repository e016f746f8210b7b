"""The local `StreamEngine`: many sessions with different adapters on one resident base.

The asyncio side: it checks requests, hands them to the engine's thread and gives out what comes
back. Of the event loop that first used it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from macaron.engines.base import SampleParams
from macaron.engines.continuous.row import Row, ranking, sampling
from macaron.engines.continuous.sink import LoopSink, set_exception, set_result
from macaron.engines.continuous.thread import EngineThread, Worker
from macaron.engines.continuous.ticket import LocalTicket
from macaron.engines.stream import EngineStats
from macaron.errors import BusyError, ConfigError, ServiceError


class ContinuousEngine:
    """A `StreamEngine`."""

    def __init__(self, worker: Worker, *, window: int, limit: int, threads: int) -> None:
        """
        Args:
            window: the most tokens of a prompt with its response.
            limit: the most responses that run or wait at once.
            threads: of torch.
        """
        self.worker, self.window, self.limit = worker, window, limit
        self._threads = threads
        self._thread: EngineThread | None = None
        self._adapters: set[str] = set()
        self._live = 0
        self._closed = False

    @property
    def _engine(self) -> EngineThread:
        if self._closed:
            raise ServiceError("the engine was closed", where="local engine")
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = EngineThread(self.worker, loop, self._threads)
        return self._thread

    def submit(
        self, prompt: Sequence[int], adapter: str | None, params: SampleParams
    ) -> LocalTicket:
        """As `StreamEngine`; a response that would leave the window ends with it ("length")."""
        self._check(prompt, adapter, 1)
        if self._live >= self.limit:
            raise BusyError(
                f"{self._live} responses are running or waiting",
                where="local engine",
                mend="try again later",
            )
        engine, sink = self._engine, LoopSink()
        self._live += 1
        row = sampling(prompt, adapter, _within(params, self.window - len(prompt)), sink)
        ticket = LocalTicket(lambda: engine.put(lambda: _cancel(row)), self._ended)
        sink.open(engine, ticket.push, ticket.finish, ticket.fail)
        engine.put(lambda: self.worker.add(row))
        return ticket

    def _ended(self) -> None:
        self._live -= 1

    def _check(self, prompt: Sequence[int], adapter: str | None, more: int) -> None:
        if not len(prompt):
            raise ConfigError("a prompt has no token", where="local engine")
        if len(prompt) + more > self.window:
            raise ConfigError(
                f"a prompt has {len(prompt)} tokens, and the window is {self.window}",
                where="local engine",
            )
        if adapter is not None and adapter not in self._adapters:
            raise ConfigError(
                f"no adapter {adapter!r} is loaded",
                where="local engine",
                mend=f"load it first; there are {sorted(self._adapters) or 'none'}",
            )

    async def rank(
        self, prompt: Sequence[int], options: Sequence[Sequence[int]], adapter: str | None
    ) -> list[float]:
        """As `StreamEngine`."""
        if not options or not all(options):
            raise ConfigError("an option to rank has no token", where="local engine")
        self._check(prompt, adapter, max(map(len, options)))
        found: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        engine, sink = self._engine, LoopSink()
        sink.open(engine, _nothing, set_result(found), set_exception(found))
        row = ranking(prompt, options, adapter, sink)
        engine.put(lambda: self.worker.add(row))
        try:
            return await found
        except asyncio.CancelledError:
            engine.put(lambda: _cancel(row))
            raise

    async def load(self, revision: str, folder: Path) -> None:
        """As `StreamEngine`."""
        if revision not in self._adapters:
            prepared = await asyncio.to_thread(self.worker.prepare, folder)
            await self._call(lambda: self.worker.install(revision, prepared))
            self._adapters.add(revision)

    async def unload(self, revision: str) -> None:
        """As `StreamEngine`; new requests for it are refused at once."""
        self._adapters.discard(revision)
        engine, gone = self._engine, self._future()
        engine.put(
            lambda: self.worker.remove(revision, lambda: engine.post(set_result(gone), None))
        )
        await gone

    async def _call(self, command: Callable[[], None]) -> None:
        """Has the engine's thread do something, and waits until it is done."""
        engine, done = self._engine, self._future()

        def run() -> None:
            try:
                command()
            except Exception as error:
                engine.post(set_exception(done), error)
            else:
                engine.post(set_result(done), None)

        engine.put(run)
        await done

    def _future(self) -> "asyncio.Future[None]":
        return asyncio.get_running_loop().create_future()

    def stats(self) -> EngineStats:
        """As `StreamEngine`."""
        return self.worker.counts.stats()

    async def close(self) -> None:
        """As `StreamEngine`."""
        self._closed = True
        if self._thread is not None:
            await asyncio.to_thread(self._thread.end)


def _within(params: SampleParams, room: int) -> SampleParams:
    return replace(params, max_tokens=min(params.max_tokens, room))


def _cancel(row: Row) -> None:
    row.cancelled = True


def _nothing(*_: object) -> None:
    """A ranking has no pieces."""
