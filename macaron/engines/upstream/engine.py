"""A `StreamEngine` whose sampling is done by vLLM or SGLang, over HTTP.

A request is asked again only while nothing of its answer has come; what was sampled stands.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from macaron.engines.base import SampleParams
from macaron.engines.stream import EngineStats
from macaron.engines.upstream.adapters import UpstreamAdapters
from macaron.engines.upstream.dialect import Ask, Dialect, UnreadableError
from macaron.engines.upstream.ticket import UpstreamTicket
from macaron.engines.upstream.wire import Refusal, TransientError, Wire
from macaron.errors import BusyError, ConfigError, ServiceError

PAUSES = (0.2, 1.0)
"""Seconds before a request is asked again."""


@dataclass(frozen=True)
class UpstreamConfig:
    """How an upstream is asked."""

    running: int = 64
    """The most requests at once."""
    waiting: int = 256
    """The most that wait for room."""
    silence: float = 120.0
    """Longest wait for the next token, seconds."""


class UpstreamEngine:
    """Made by `connect_upstream`."""

    def __init__(
        self, wire: Wire, dialect: Dialect, config: UpstreamConfig, longest: int | None
    ) -> None:
        """
        Args:
            longest: tokens that a prompt and its response may have; None where it is not said.
        """
        self._wire, self._dialect, self._config, self._longest = wire, dialect, config, longest
        self._adapters = UpstreamAdapters(dialect, self._post, wire.url)
        self._room = asyncio.Semaphore(config.running)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stats = EngineStats()

    @property
    def name(self) -> str:
        """vLLM or SGLang, and the base's name there."""
        return f"{self._dialect.name} {self._dialect.base}"

    def submit(
        self, prompt: Sequence[int], adapter: str | None, params: SampleParams
    ) -> UpstreamTicket:
        """Begins a response, as `StreamEngine.submit`."""
        name = self._adapters.name(adapter)
        self._check(prompt, params.max_tokens)
        if self._stats.waiting >= self._config.waiting:
            raise BusyError("too many requests wait", where=self._wire.url, mend="try again later")
        ticket = UpstreamTicket(params)
        ask = self._dialect.sampling(prompt, name, params)
        self._count(prompt_tokens=len(prompt))
        task = ticket.start(self._fill(ticket, ask, adapter))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ticket

    async def rank(
        self, prompt: Sequence[int], options: Sequence[Sequence[int]], adapter: str | None
    ) -> list[float]:
        """log p(option | prompt), summed over each option's tokens; one request an option."""
        if not options or not all(options):
            raise ConfigError("an option to rank has no token", where=self._wire.url)
        name = self._adapters.name(adapter)
        self._check(prompt, max(map(len, options)))

        async def score(option: Sequence[int]) -> float:
            ask = self._dialect.scoring(prompt, option, name)
            async with self._place(adapter):
                answer = await self._again(lambda: self._post(ask), adapter)
                with self._reading():
                    return self._dialect.score(answer, option)

        return list(await asyncio.gather(*map(score, options)))

    async def load(self, revision: str, folder: Path) -> None:
        """Loads an adapter revision, as `StreamEngine.load`."""
        await self._adapters.load(revision, folder)

    async def unload(self, revision: str) -> None:
        """Forgets an adapter revision once no response needs it."""
        await self._adapters.unload(revision)

    def stats(self) -> EngineStats:
        """Counts for the metrics; the prefix cache's size is the server's own affair."""
        return replace(self._stats, adapters=len(self._adapters))

    async def close(self) -> None:
        """Ends all that runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._wire.close()

    async def _fill(self, ticket: UpstreamTicket, ask: Ask, adapter: str | None) -> None:
        async with self._place(adapter):
            await self._again(lambda: self._stream(ticket, ask), adapter, ticket)
            self._count(responses=1)

    async def _stream(self, ticket: UpstreamTicket, ask: Ask) -> None:
        async with aclosing(self._wire.events(ask.path, ask.body)) as events:
            async for event in events:
                with self._reading():
                    chunk = self._dialect.chunk(event, len(ticket.token_ids))
                cached = 0 if chunk.cached is None else chunk.cached - ticket.cached_tokens
                self._count(sampled_tokens=len(chunk.token_ids), cached_tokens=cached)
                ticket.add(chunk)
        if ticket.finish is None:
            raise TransientError("ended a response in its middle", where=self._wire.url)

    async def _again(
        self,
        work: Callable[[], Awaitable[Any]],
        adapter: str | None,
        ticket: UpstreamTicket | None = None,
    ) -> Any:
        """The work's result; done again while nothing has come and it may help."""
        pauses, reloaded = iter(PAUSES), False
        while True:
            try:
                return await work()
            except TransientError:
                if ticket is not None and ticket.finish is not None:
                    return None
                pause = next(pauses, None)
                if pause is None or (ticket is not None and ticket.token_ids):
                    raise
                await asyncio.sleep(pause)
            except Refusal as refusal:
                lost = adapter is not None and self._dialect.unknown(refusal)
                if not lost or reloaded or (ticket is not None and ticket.token_ids):
                    raise self._refused(refusal) from refusal
                reloaded = True
                await self._adapters.again(str(adapter))

    @asynccontextmanager
    async def _place(self, adapter: str | None) -> AsyncIterator[None]:
        """A place among the running requests, with the adapter kept loaded."""
        with self._adapters.used(adapter):
            self._count(waiting=1)
            try:
                await self._room.acquire()
            finally:
                self._count(waiting=-1)
            self._count(running=1)
            try:
                yield
            finally:
                self._count(running=-1)
                self._room.release()

    async def _post(self, ask: Ask) -> Any:
        return await self._wire.post(ask.path, ask.body)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (UnreadableError, KeyError, IndexError, TypeError, ValueError) as error:
            what = str(error) if isinstance(error, UnreadableError) else "not in its own form"
            raise ServiceError(
                f"{self._dialect.name} answers otherwise than asked: {what}",
                where=self._wire.url,
                mend="see which versions `docs/serving.md` names",
            ) from error

    def _refused(self, refusal: Refusal) -> ServiceError:
        return ServiceError(
            f"{self._dialect.name} refuses the request: {refusal.message}", where=self._wire.url
        )

    def _check(self, prompt: Sequence[int], more: int) -> None:
        if not prompt:
            raise ConfigError("a prompt has no token", where=self._wire.url)
        if self._longest is not None and len(prompt) + more > self._longest:
            raise ConfigError(
                f"{len(prompt)} tokens and {more} more are over the server's {self._longest}",
                where=self._wire.url,
            )

    def _count(self, **more: int) -> None:
        counts = {name: getattr(self._stats, name) + count for name, count in more.items()}
        self._stats = replace(self._stats, **counts)
