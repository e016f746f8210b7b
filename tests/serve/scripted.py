"""A `Service` that plays a script in place of a model; what HTTP does with it is what is tested.

The last message's text is the script: `say:a|b` gives the pieces a and b, `call:name` calls a
client's tool, `step` uses one of the server's, `sleep:0.5` waits, `big:100` says 100 KiB,
`stop:length` ends so, `fail:context` and `raise:busy` break off, several after each other with `;`.
Anything else is echoed word by word.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from macaron.errors import BusyError, ConfigError, ServiceError, StorageError
from macaron.experience.schema import Feedback
from macaron.messages import ToolCall
from macaron.serve.records import TurnRecord
from macaron.serve.timeline import UnknownTurnError
from macaron.serve.turns import Delta, Event, Finished, Route, Step, TurnError, TurnRequest

FAULTS: dict[str, Exception] = {
    "busy": BusyError("too much runs"),
    "config": ConfigError("a tool's name is taken", where="/secret/path"),
    "storage": StorageError("the disk is full", where="/secret/path"),
    "engine": ServiceError("no answer from http://10.0.0.7", where="upstream"),
    "bug": RuntimeError("secret of the inside"),
}
PAIR, HCP = "a1b2c3d4", "e5f60718"


def call(name: str, number: int = 0) -> ToolCall:
    function = {"name": name, "arguments": '{"x": 1}'}
    return {"id": f"call_{number}", "type": "function", "function": function}  # type: ignore[typeddict-item]


@dataclass
class ScriptedTurn:
    """One turn of the script."""

    service: "ScriptedService"
    request: TurnRequest
    number: int
    pair: str = PAIR
    hcp: str = HCP
    created: int = 1_700_000_000
    records: dict[int, TurnRecord] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{'resp' if self.request.kind == 'response' else 'chatcmpl'}_{self.number:04}"

    @property
    def route(self) -> Route:
        return Route("L2", "coding", "routed", 0.9876, tokens=3, ms=2.0)

    @property
    def script(self) -> list[str]:
        return self.request.messages[-1]["content"].split(";")

    async def events(self) -> AsyncIterator[Event]:
        try:
            for index in range(self.request.n):
                async for event in self._choice(index):
                    yield event
        except (GeneratorExit, asyncio.CancelledError):
            self.service.log.append(("closed", self.id))
            raise

    async def _choice(self, index: int) -> AsyncIterator[Event]:
        said, calls, stop = "", [], "answer"
        for part in self.script:
            verb, _, what = part.partition(":")
            if verb == "sleep":
                await asyncio.sleep(float(what))
            elif verb == "stop":
                stop = what
            elif verb == "call":
                calls.append(call(what, len(calls)))
            elif verb == "step":
                yield Step(index, call("search"))
                yield Step(index, call("search"), "found")
            elif verb == "fail":
                raise TurnError("The turn failed", what)  # type: ignore[arg-type]
            elif verb == "raise":
                raise FAULTS[what]
            else:
                for piece in _pieces(verb, what, part):
                    said += piece
                    yield Delta(index, piece)
                    await asyncio.sleep(0)
        self.records[index] = self._record(index, said, calls, stop)
        yield Finished(index, self.records[index])

    def _record(self, index: int, said: str, calls: list[ToolCall], stop: str) -> TurnRecord:
        request = self.request
        return TurnRecord(
            id=self.id if index == 0 else f"{self.id}-{index}",
            previous=request.previous,
            session=self.id,
            number=0,
            created_at="2026-11-30T12:00:00+00:00",
            key=request.key,
            user=request.user,
            stored=request.store,
            pair=PAIR,
            hcp=HCP,
            specialist="L2",
            adapter=None,
            route={"why": "routed"},
            seed=0,
            instructions=request.instructions,
            tools=[
                {"type": "function", "function": {
                    "name": t.name, "description": t.description, "parameters": dict(t.parameters)
                }}
                for t in request.tools
            ],
            given=request.messages,
            heard=request.messages,
            said=[{"role": "assistant", "content": said}],
            answer=said,
            open_calls=calls,
            stop_reason=stop,  # type: ignore[arg-type]
            skills=(),
            sampled=True,
            tail_ids=(),
            token_ids=(),
            loss_mask=(),
            logprobs=(),
            usage={
                "prompt_tokens": 11, "cached_tokens": 4, "completion_tokens": 5,
                "route_tokens": 3, "summary_tokens": 0,
            },
            timings_ms={"route": 2.0, "answer": 7.0},
            metadata=request.metadata,
        )  # fmt: skip

    async def offer(self) -> None:
        self.service.log.append(("offered", self.id))
        if self.service.full:
            raise FAULTS["storage"]

    async def deliver(self) -> None:
        self.service.log.append(("delivered", self.id))
        for record in self.records.values():
            self.service.turns[record.id] = replace(record, state="delivered")

    async def withdraw(self) -> None:
        self.service.log.append(("withdrawn", self.id))


class ScriptedService:
    """Keeps delivered turns in a dict, and a log of what was asked of it."""

    def __init__(self) -> None:
        self.requests: list[TurnRequest] = []
        self.log: list[tuple[str, str]] = []
        self.turns: dict[str, TurnRecord] = {}
        self.feedbacks: list[tuple[str, str, Feedback]] = []
        self.status = "ok"
        self.full = False
        self.closed = False

    async def begin(self, request: TurnRequest) -> ScriptedTurn:
        if request.previous is not None and await self.get(request.previous, request.key) is None:
            raise UnknownTurnError(request.previous)
        self.requests.append(request)
        text = request.messages[-1]["content"]
        if text.startswith("begin:"):
            raise FAULTS[text.removeprefix("begin:")]
        if text == "begin-sleep":
            await asyncio.sleep(60)
        return ScriptedTurn(self, request, len(self.requests))

    async def get(self, id: str, key: str) -> TurnRecord | None:
        record = self.turns.get(id)
        return record if record and record.key == key else None

    async def delete(self, id: str, key: str) -> bool:
        return await self.get(id, key) is not None and self.turns.pop(id) is not None

    async def feedback(self, id: str, key: str, feedback: Feedback) -> None:
        if await self.get(id, key) is None:
            raise UnknownTurnError(id)
        self.feedbacks.append((id, key, feedback))

    def health(self) -> Mapping[str, Any]:
        what = {"pair": PAIR, "hcp": HCP, "generation": 2, "engine": "script"}
        return {"status": self.status, **what}

    async def close(self) -> None:
        self.closed = True

    def ends(self) -> list[str]:
        """How turns ended, in order."""
        return [what for what, _ in self.log if what in ("delivered", "withdrawn")]


def _pieces(verb: str, what: str, part: str) -> list[str]:
    if verb == "say":
        return what.split("|")
    if verb == "big":
        return ["x" * 1024] * int(what)
    words = part.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]
