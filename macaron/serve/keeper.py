"""What comes after an answer went out: the experience, and the summary of a long answer.

Everything here may happen twice, or later, with the same end: the timeline holds each turn until it
is done.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from macaron.engines.stream import StreamEngine
from macaron.errors import MacaronError
from macaron.experience.log import TurnLog
from macaron.experience.schema import Feedback
from macaron.harness.past import Past
from macaron.harness.session import Session
from macaron.harness.template import template_of
from macaron.mol.summary import summarise
from macaron.serve.counts import Counts
from macaron.serve.deployment import Placed
from macaron.serve.records import TurnRecord
from macaron.serve.timeline import Timeline, UnknownTurnError
from macaron.serve.trajectories import past_of, trajectory_of

log = logging.getLogger("macaron.serve")
Result = TypeVar("Result")

BATCH = 200
"""Turns that are recovered at once."""


class Keeper:
    """Of one event loop."""

    def __init__(
        self,
        engine: StreamEngine,
        timeline: Timeline,
        experience: TurnLog,
        counts: Counts,
    ) -> None:
        self._engine, self._timeline = engine, timeline
        self._experience, self._counts = experience, counts
        self._logging: dict[str, asyncio.Task[bool]] = {}
        self._summing: dict[str, asyncio.Task[str]] = {}

    def keep(self, record: TurnRecord, session: Session, placed: Placed) -> None:
        """Begins what is due after a delivered turn.

        Args:
            record: the turn.
            session: its own, in whose past it is the last.
            placed: its pair.
        """
        before = tuple(session.past[:-1])
        _begin(self._logging, record.id, self._log(record, before))
        if session.is_long(session.past[-1]):
            _begin(self._summing, record.id, self._sum_up(record, placed))

    async def settle(
        self, session: Session, specialist: str, chain: Sequence[TurnRecord], placed: Placed
    ) -> None:
        """Sees to it that no long answer of the past is told to a specialist in full."""
        for n in session.untold(specialist):
            record = chain[n]
            if record.summary is None:
                self._counts.summary_waits += 1
                summary = await self.summary(record, placed)
            else:
                summary = record.summary
            session.summarise(n, summary)

    async def summary(self, record: TurnRecord, placed: Placed) -> str:
        """The one summary of a turn, made now if it is not in the making."""
        task = self._summing.get(record.id)
        if task is None:
            task = _begin(self._summing, record.id, self._sum_up(record, placed))
        return await asyncio.shield(task)

    async def feedback(self, record: TurnRecord, feedback: Feedback) -> None:
        """Keeps what was said of a turn, behind the turn itself."""
        if record.state == "offered":
            await self._timeline.delivered([record.id])
        if (task := self._logging.get(record.id)) is not None:
            await asyncio.wait([task])
        await asyncio.to_thread(self._experience.append_feedback, record.id, feedback)

    async def recover(self) -> None:
        """Puts into the experience what an earlier life left: delivered, or about to be."""
        while found := await self._timeline.pending(BATCH):
            left = [record for record in found if record.id not in self._logging]
            done = [await self._log(record, await self._before(record)) for record in left]
            self._counts.recovered += sum(done)
            if len(found) < BATCH or not any(done):
                return

    async def close(self) -> None:
        """Waits for what runs."""
        running = [*self._logging.values(), *self._summing.values()]
        if running:
            await asyncio.wait(running)

    async def _log(self, record: TurnRecord, before: Sequence[Past]) -> bool:
        """Whether the turn is in the experience now."""
        try:
            row = trajectory_of(record, before)
            await asyncio.to_thread(self._experience.append, row)
            await self._timeline.logged([record.id])
        except MacaronError as error:
            # The timeline still has it, and it is tried again.
            log.error("turn %s is not in the experience yet: %s", record.id, error)
            return False
        return True

    async def _before(self, record: TurnRecord) -> list[Past]:
        if record.previous is None:
            return []
        try:
            chain = await self._timeline.chain(record.previous, record.key)
        except UnknownTurnError:
            return []
        return [past_of(turn) for turn in chain]

    async def _sum_up(self, record: TurnRecord, placed: Placed) -> str:
        harness = placed.harness
        made = await summarise(
            self._engine,
            template_of(harness.tokenizer),
            harness.hcp.memory,
            record.token_ids,
            record.answer,
            record.adapter,
        )
        self._counts.summaries += 1
        self._counts.summaries_cut += made.cut
        self._counts.summary_tokens += made.tokens
        try:
            return await self._timeline.summarised(record.id, made.text, made.tokens)
        except MacaronError as error:
            log.error("the summary of turn %s was not kept: %s", record.id, error)
            return made.text


def _begin(
    tasks: dict[str, asyncio.Task[Result]], name: str, work: Coroutine[Any, Any, Result]
) -> asyncio.Task[Result]:
    """Starts a task that is known by a turn's name while it runs."""
    task = tasks[name] = asyncio.create_task(work)
    task.add_done_callback(lambda _: tasks.pop(name, None))
    return task
