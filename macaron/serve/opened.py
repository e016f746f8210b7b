"""A turn between its begin and its end: offered, then delivered or withdrawn, each once."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from time import time

from macaron.engines.stream import StreamEngine
from macaron.errors import MacaronError, ServiceError
from macaron.serve.choice import WHY_FAILED, Choice
from macaron.serve.counts import Counts
from macaron.serve.deployment import Placed
from macaron.serve.records import TurnRecord
from macaron.serve.timeline import Timeline
from macaron.serve.turns import Event, Route, TurnError, TurnRequest

log = logging.getLogger("macaron.serve")

Ended = Callable[["Opened", bool], Awaitable[None]]
"""Told of a turn that has ended, and whether it was delivered."""


class Opened:
    """`OpenTurn`, of one event loop."""

    def __init__(
        self,
        request: TurnRequest,
        route: Route,
        placed: Placed,
        choices: Sequence[Choice],
        engine: StreamEngine,
        timeline: Timeline,
        counts: Counts,
        ended: Ended,
        waited_ms: float = 0.0,
    ) -> None:
        """
        Args:
            waited_ms: for summaries of earlier turns, before this one could begin.
        """
        self.id, self.route = choices[0].id, route
        self.pair, self.hcp = placed.pair.id, placed.pair.hcp
        self.created = int(time())
        self.request, self.placed, self.choices = request, placed, choices
        self._engine, self._timeline, self._counts = engine, timeline, counts
        self._ended, self._waited_ms = ended, waited_ms
        self._offered = self._over = False
        self._started = asyncio.get_running_loop().time()

    @property
    def records(self) -> list[TurnRecord]:
        """Of the choices that are complete."""
        return [choice.record for choice in self.choices if choice.record is not None]

    async def events(self) -> AsyncGenerator[Event, None]:
        """`OpenTurn.events`."""
        limit = self.placed.harness.hcp.session.turn_s
        try:
            async with asyncio.timeout(limit):
                if len(self.choices) == 1:
                    async with aclosing(self._of(self.choices[0])) as events:
                        async for event in events:
                            yield event
                else:
                    async with aclosing(self._merged()) as events:
                        async for event in events:
                            yield event
        except TimeoutError as error:
            self._counts.failed += 1
            what, mend = WHY_FAILED["time"]
            raise TurnError(what, "time", mend=mend) from error
        except TurnError:
            self._counts.failed += 1
            raise

    async def offer(self) -> None:
        """`OpenTurn.offer`."""
        if len(self.records) != len(self.choices):
            raise ServiceError("a turn that is not complete cannot be offered", where=self.id)
        answered = 1000 * (asyncio.get_running_loop().time() - self._started)
        whole = self.route.ms + self._waited_ms + answered
        more = {"answer": answered, "summary_wait": self._waited_ms, "turn": whole}
        for choice in self.choices:
            if choice.record is not None:
                timings = {**choice.record.timings_ms, **more}
                choice.record = replace(choice.record, timings_ms=timings)
        self._offered = True
        await self._timeline.offer(self.records)

    async def deliver(self) -> None:
        """`OpenTurn.deliver`."""
        if self._over or not self._offered:
            return
        self._over = True
        for choice in self.choices:
            await asyncio.to_thread(choice.session.deliver)
        self._counts.delivered += len(self.choices)
        try:
            await self._timeline.delivered([record.id for record in self.records])
        except MacaronError as error:
            # It is written down as offered, and its client proves its arrival by speaking of it.
            log.error("turn %s went out and is not marked as delivered: %s", self.id, error)
        finally:
            await self._ended(self, True)

    async def withdraw(self) -> None:
        """`OpenTurn.withdraw`."""
        if self._over:
            return
        self._over = True
        try:
            if self._offered:
                await self._timeline.withdraw([record.id for record in self.records])
        finally:
            for choice in self.choices:
                await asyncio.to_thread(choice.session.undo)
            self._counts.withdrawn += len(self.choices)
            await self._ended(self, False)

    def _of(self, choice: Choice) -> AsyncGenerator[Event, None]:
        return choice.events(self._engine, self.placed, self.request, self.route)

    async def _merged(self) -> AsyncGenerator[Event, None]:
        """The events of all choices as they come."""
        queue: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()

        async def put(choice: Choice) -> None:
            try:
                async with aclosing(self._of(choice)) as events:
                    async for event in events:
                        queue.put_nowait(event)
                queue.put_nowait(None)
            except Exception as error:
                queue.put_nowait(error)

        tasks = [asyncio.ensure_future(put(choice)) for choice in self.choices]
        try:
            going = len(tasks)
            while going:
                event = await queue.get()
                if event is None:
                    going -= 1
                elif isinstance(event, BaseException):
                    raise event
                else:
                    yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
