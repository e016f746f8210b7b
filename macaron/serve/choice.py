"""One answer in the making: a session's turn, from what is begun to the record of it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from macaron.engines.stream import StreamEngine
from macaron.experience.times import now
from macaron.harness.session import Session
from macaron.harness.turn import Turn
from macaron.messages import Message, ToolCall
from macaron.mol.playing import Begun, Spent, play
from macaron.serve.deployment import Placed
from macaron.serve.names import public_call
from macaron.serve.records import TurnRecord
from macaron.serve.turns import Delta, Event, Finished, Route, Step, TurnError, TurnRequest

WHY_FAILED = {
    "context": ("the conversation fills the context", "begin a new one"),
    "turns": ("the session has had all its turns", "begin a new one"),
    "time": ("the turn took longer than the harness allows", "ask for less"),
    "sandbox": ("the sandbox failed", "try again"),
    "tool": ("a tool broke", "try again"),
}


@dataclass
class Choice:
    """One of a request's answers."""

    index: int
    id: str
    session: Session
    session_id: str
    previous: str | None
    begun: Begun
    spent: Spent = field(default_factory=Spent)
    record: TurnRecord | None = None

    async def events(
        self, engine: StreamEngine, placed: Placed, request: TurnRequest, route: Route
    ) -> AsyncGenerator[Event, None]:
        """What happens, with the record as the last.

        Raises:
            TurnError: the turn came to nothing.
        """
        adapters = placed.harness.adapters
        async with aclosing(play(self.session, self.begun, engine, adapters, self.spent)) as played:
            async for happened in played:
                if isinstance(happened, str):
                    yield Delta(self.index, happened)
                elif isinstance(happened, Turn):
                    self.record = self._record(happened, placed, request, route)
                    yield Finished(self.index, self.record)
                else:
                    for step in self._steps(happened):
                        yield step

    def _steps(self, messages: Sequence[Message]) -> list[Step]:
        results = {m.get("tool_call_id"): m["content"] for m in messages}
        calls: list[ToolCall] = [c for m in messages for c in m.get("tool_calls", [])]
        return [Step(self.index, call, results.get(call["id"])) for call in calls]

    def _record(self, turn: Turn, placed: Placed, request: TurnRequest, route: Route) -> TurnRecord:
        if turn.failed:
            what, mend = WHY_FAILED.get(turn.stop_reason, ("the turn failed", "try again"))
            raise TurnError(what, turn.stop_reason, mend=mend)
        specialist = turn.specialist
        spent = self.spent
        return TurnRecord(
            id=self.id,
            previous=self.previous,
            session=self.session_id,
            number=self.session.turns,
            created_at=now(),
            key=request.key,
            user=request.user,
            stored=request.store and self.index == 0,
            pair=placed.pair.id,
            hcp=placed.pair.hcp,
            specialist=specialist,
            adapter=placed.harness.adapters.get(specialist),
            route={"name": route.name, "why": route.why, "confidence": route.confidence},
            seed=self.session.seed,
            instructions=request.instructions,
            tools=[tool.spec for tool in self.begun.setting.tools],
            given=turn.given,
            heard=turn.heard,
            said=turn.messages[len(turn.heard) :],
            answer=turn.answer,
            open_calls=[
                {**call, "id": public_call(specialist, call["id"])} for call in turn.open_calls
            ],
            stop_reason=turn.stop_reason,
            skills=sorted(self.session.skills(specialist, self.begun.setting)),
            sampled=bool(turn.tail),
            tail_ids=turn.tail,
            token_ids=turn.token_ids,
            loss_mask=turn.loss_mask,
            logprobs=turn.logprobs,
            usage={
                "prompt_tokens": spent.prompt_tokens,
                "cached_tokens": spent.cached_tokens,
                "completion_tokens": spent.completion_tokens,
                "route_tokens": route.tokens,
                "summary_tokens": 0,
            },
            timings_ms={"route": route.ms, "first_token": 1000 * (spent.first_token_s or 0.0)},
            metadata=request.metadata,
        )
