"""The service: a request for a turn finds its session, pair and specialist, and is answered.

History holds exactly what was delivered; the rest of a turn's life (summary, experience) comes
after its answer went out, and may be repeated without harm.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from macaron.engines.stream import StreamEngine
from macaron.errors import BusyError, ConfigError, MacaronError
from macaron.experience.log import TurnLog
from macaron.experience.schema import Feedback
from macaron.experience.times import now
from macaron.harness.pool.live import Origin
from macaron.harness.session import Session
from macaron.mol.playing import Begun
from macaron.mol.router import route_turn
from macaron.serve.choice import Choice
from macaron.serve.counts import Counts
from macaron.serve.deployment import Deployment, Placed
from macaron.serve.keeper import Keeper
from macaron.serve.live import LiveSessions
from macaron.serve.names import choice_id, new_turn_id
from macaron.serve.opened import Opened
from macaron.serve.records import TurnRecord
from macaron.serve.requests import begun, caller, session_seed
from macaron.serve.timeline import Timeline, UnknownTurnError
from macaron.serve.trajectories import past_of
from macaron.serve.turns import Route, TurnRequest

log = logging.getLogger("macaron.serve")


@dataclass(frozen=True)
class Limits:
    """What one server takes on."""

    running: int = 64
    """Turns that are answered at once; more are told to come again."""
    live: int = 256
    """Sessions that are kept ready to go on."""
    look_s: float = 2.0
    """Between two looks for a new champion, seconds."""
    sweep_s: float = 60.0
    """Between two times that what was left undone is done, seconds."""
    retention_days: float = 0.0
    """That a session is kept after its last turn; 0: for ever."""


class MolService:
    """`Service` over a deployment. Make it with `start`."""

    def __init__(
        self,
        deployment: Deployment,
        engine: StreamEngine,
        timeline: Timeline,
        experience: TurnLog,
        counts: Counts,
        limits: Limits = Limits(),
        at_end: Callable[[], None] = lambda: None,
        pseudonym: Callable[[str], str] = lambda name: name,
    ) -> None:
        """
        Args:
            pseudonym: what is kept of an end user's name.
        """
        self._deployment, self._engine, self._timeline = deployment, engine, timeline
        self.counts, self._limits = counts, limits
        self._live = LiveSessions(limits.live)
        self._keeper = Keeper(engine, timeline, experience, counts)
        self._since, self._at_end = now(), at_end
        self._pseudonym = pseudonym
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Loads the champion, puts into the experience what an earlier life left, and follows.

        Raises:
            MacaronError: there is no champion, or it cannot be loaded.
        """
        await self._deployment.start()
        await self._keeper.recover()
        follow = self._deployment.follow(self._limits.look_s)
        self._tasks = [asyncio.create_task(work) for work in (follow, self._sweep())]

    async def begin(self, request: TurnRequest) -> Opened:
        """`Service.begin`."""
        if self.counts.running >= self._limits.running:
            raise BusyError(
                f"{self.counts.running} turns run already", where="server", mend="try again soon"
            )
        self.counts.running += 1
        if request.user is not None:
            request = replace(request, user=self._pseudonym(request.user))
        try:
            return await self._begin(request)
        except BaseException:
            self.counts.running -= 1
            raise

    async def get(self, id: str, key: str) -> TurnRecord | None:
        """`Service.get`."""
        return await self._timeline.get(id, key)

    async def delete(self, id: str, key: str) -> bool:
        """`Service.delete`."""
        return await self._timeline.delete(id, key)

    async def feedback(self, id: str, key: str, feedback: Feedback) -> None:
        """`Service.feedback`."""
        record = await self._timeline.get(id, key)
        if record is None:
            raise UnknownTurnError(id)
        await self._keeper.feedback(record, feedback)

    def health(self) -> Mapping[str, Any]:
        """`Service.health`."""
        placed = self._deployment.current
        return {
            "status": "ok",
            "pair": placed.pair.id,
            "hcp": placed.pair.hcp,
            "generation": placed.pair.generation,
            "base": placed.pair.base,
            "loaded": self._deployment.loaded,
            "since": self._since,
        }

    async def close(self) -> None:
        """`Service.close`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._keeper.close()
        for session in self._live.clear():
            await asyncio.to_thread(session.close)
        await self._timeline.close()
        await self._engine.close()
        await asyncio.to_thread(self._at_end)

    async def _sweep(self) -> None:
        """Does again what failed, and lets old sessions go."""
        while True:
            await asyncio.sleep(self._limits.sweep_s)
            try:
                await self._keeper.recover()
                if days := self._limits.retention_days:
                    before = datetime.now(UTC) - timedelta(days=days)
                    await self._timeline.expire(before.isoformat())
            except MacaronError as error:
                log.error("sweeping failed and is tried again: %s", error)

    async def _begin(self, request: TurnRequest) -> Opened:
        chain = await self._chain(request)
        placed, moved = await self._placed(chain)
        with self._deployment.using(placed):
            route = await self._route(request, placed, chain)
            begin = begun(request, placed.harness.hcp, route.specialist)
            choices = self._choices(request, placed, chain, begin, moved)
            started = time.perf_counter()
            await self._settle(choices, route.specialist, chain, placed)
            waited = 1000 * (time.perf_counter() - started)
            # Until the turn has ended, which is after this block.
            placed.users += 1
        return Opened(
            request,
            route,
            placed,
            choices,
            self._engine,
            self._timeline,
            self.counts,
            self._ended,
            waited,
        )

    async def _settle(
        self,
        choices: Sequence[Choice],
        specialist: str,
        chain: Sequence[TurnRecord],
        placed: Placed,
    ) -> None:
        try:
            for choice in choices:
                await self._keeper.settle(choice.session, specialist, chain, placed)
        except BaseException:
            for choice in choices:
                choice.session.close()
            raise

    async def _chain(self, request: TurnRequest) -> list[TurnRecord]:
        if request.previous is None:
            return []
        return await self._timeline.chain(request.previous, request.key)

    async def _placed(self, chain: Sequence[TurnRecord]) -> tuple[Placed, bool]:
        """The session's pair; where that is gone, the champion, and True."""
        if not chain:
            return self._deployment.current, False
        try:
            return await self._deployment.place(chain[-1].pair), False
        except MacaronError as error:
            self.counts.moved += 1
            log.warning("session %s goes on with the champion: %s", chain[0].id, error)
            return self._deployment.current, True

    async def _route(
        self, request: TurnRequest, placed: Placed, chain: Sequence[TurnRecord]
    ) -> Route:
        hcp = placed.harness.hcp
        if called := caller(request.messages, chain):
            if called not in hcp.specialists:
                raise ConfigError(
                    "no specialist made this call", where="tool_call_id", mend="give the call's id"
                )
            return Route(called, hcp.specialists[called].name, "tool_result")
        if len(hcp.specialists) == 1:
            (only,) = hcp.specialists
            return Route(only, hcp.specialists[only].name, "only")
        try:
            chosen = await route_turn(
                self._engine,
                placed.harness.tokenizer,
                hcp,
                request.messages,
                placed.harness.adapters,
            )
        except (MacaronError, ValueError) as error:
            self.counts.router_faults += 1
            log.error("the router failed, the default takes the turn: %s", error)
            return Route(hcp.router.default, hcp.specialists[hcp.router.default].name, "default")
        name = hcp.specialists[chosen.specialist].name
        return Route(chosen.specialist, name, "routed", chosen.confidence, chosen.tokens, chosen.ms)

    def _choices(
        self,
        request: TurnRequest,
        placed: Placed,
        chain: Sequence[TurnRecord],
        begin: Begun,
        moved: bool,
    ) -> list[Choice]:
        turn = new_turn_id(request.kind)
        previous = chain[-1].id if chain else None
        made = []
        for index in range(request.n):
            name = choice_id(turn, index)
            session = None
            if previous and index == 0 and not moved:
                session = self._live.take(previous, placed.pair.id)
            session_id = chain[0].session if chain else name
            if session is None:
                seed = session_seed(request, chain, index)
                past = [past_of(record) for record in chain]
                session = placed.harness.session(seed, origin=Origin(session_id), past=past)
                self.counts.rebuilt += bool(chain)
            made.append(Choice(index, name, session, session_id, previous, begin))
        return made

    async def _ended(self, opened: Opened, delivered: bool) -> None:
        opened.placed.users -= 1
        self.counts.running -= 1
        gone: list[Session] = []
        for choice in opened.choices:
            kept = choice.id if delivered else choice.previous
            if choice.index == 0 and opened.request.store and kept:
                gone += self._live.keep(kept, opened.pair, choice.session)
            else:
                gone.append(choice.session)
            if delivered and choice.record is not None:
                self._keeper.keep(choice.record, choice.session, opened.placed)
        for session in gone:
            await asyncio.to_thread(session.close)
        self.counts.sessions = len(self._live)
