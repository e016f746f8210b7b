"""One turn over HTTP as a transaction: it is delivered if its last byte went out, else withdrawn.

It is an ASGI application by itself, because only its author knows when the last byte was handed
over; a client that leaves ends the turn at once, wherever it stands.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.responses import Response

from macaron.errors import ServiceError
from macaron.serve.http import errors, sse
from macaron.serve.http.asgi import Receive, Scope, Send
from macaron.serve.http.errors import ApiError
from macaron.serve.http.limits import Allowances
from macaron.serve.http.line import PIECE, GoneError, Line
from macaron.serve.http.log import log
from macaron.serve.http.metrics import Metrics
from macaron.serve.http.notes import Notes, notes_of
from macaron.serve.records import TurnRecord
from macaron.serve.turns import Delta, Event, Finished, OpenTurn, Service, TurnRequest
from macaron.serving import ServeConfig

TELL_S = 5.0
"""For telling a client of a fault; one that does not read is left."""


class Form(Protocol):
    """How an endpoint writes a turn. One object a request; the methods are called in this order."""

    def whole(self, turn: OpenTurn, records: Sequence[TurnRecord]) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        ...

    def opening(self, turn: OpenTurn) -> bytes:
        """What a stream begins with."""
        ...

    def piece(self, event: Event) -> bytes:
        """What an event adds to a stream; nothing where it is only part of the ending."""
        ...

    def ending(self, records: Sequence[TurnRecord]) -> bytes:
        """The end of a stream, once the turn is written down."""
        ...

    def broken(self, error: ApiError) -> bytes:
        """The end of a stream that failed."""
        ...


@dataclass(frozen=True)
class Desk:
    """What every exchange shares."""

    service: Service
    config: ServeConfig
    metrics: Metrics
    allowances: Allowances


class Exchange(Response):
    """The answer to one request for a turn.

    Args:
        desk: what all share.
        request: the turn wanted.
        form: how it is written.
        stream: piece by piece, or whole.
    """

    def __init__(self, desk: Desk, request: TurnRequest, form: Form, stream: bool) -> None:
        super().__init__()
        self._desk, self._request, self._form, self._stream = desk, request, form, stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers; a client that leaves ends the work."""
        line, notes = Line(receive, send), notes_of(scope)
        notes.stream = self._stream
        work = asyncio.create_task(self._work(line, notes))
        watch = asyncio.create_task(line.watch())
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if line.gone:
                work.cancel()
            await asyncio.wait({work})
        finally:
            watch.cancel()
            # The server itself ends: what is not on its last bytes is given up.
            if not work.done() and not line.gone and not line.handing:
                work.cancel()
            await asyncio.wait({work, watch})

    async def _work(self, line: Line, notes: Notes) -> None:
        """The whole transaction."""
        turn: OpenTurn | None = None
        try:
            async with asyncio.timeout(self._desk.config.limits.turn_s) as clock:
                turn = await self._begin(notes)
                records = await self._collect(turn, line, notes)
                await turn.offer()
                last = await self._all_but_last(turn, records, line)
                clock.reschedule(None)
                await line.end(last)
        except (Exception, asyncio.CancelledError) as error:
            await self._give_up(error, turn, line, notes)
        else:
            await self._deliver(turn, records, notes)

    async def _begin(self, notes: Notes) -> OpenTurn:
        turn = await self._desk.service.begin(self._request)
        notes.of(turn)
        return turn

    async def _collect(self, turn: OpenTurn, line: Line, notes: Notes) -> list[TurnRecord]:
        """Follows the turn to the end of all its choices, and writes what comes if it streams."""
        records: dict[int, TurnRecord] = {}
        async with aclosing(sse.paced(turn.events(), self._desk.config.keep_alive_s)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    records[event.index] = event.turn
                elif isinstance(event, Delta) and notes.first_ms is None:
                    notes.first_ms = round(notes.ms(), 1)
                if self._stream:
                    await self._pass_on(event, turn, line)
        if sorted(records) != list(range(self._request.n)):
            raise ServiceError("the engine ended before every answer was complete")
        return [records[index] for index in range(self._request.n)]

    async def _pass_on(self, event: Event | None, turn: OpenTurn, line: Line) -> None:
        if isinstance(event, Finished):
            return
        await self._open(turn, line)
        if body := sse.ALIVE if event is None else self._form.piece(event):
            await line.write(body)

    async def _open(self, turn: OpenTurn, line: Line) -> None:
        """Begins the stream, late: until something comes, a fault can still have its own status."""
        if not line.started:
            await line.start(200, sse.HEADERS)
            await line.write(self._form.opening(turn))

    async def _all_but_last(
        self, turn: OpenTurn, records: Sequence[TurnRecord], line: Line
    ) -> bytes:
        """Sends what there is still to send but for the last piece, which it returns."""
        if self._stream:
            await self._open(turn, line)
            body = self._form.ending(records)
        else:
            body = sse.dumps(self._form.whole(turn, records))
            await line.start(200, json_headers(body))
        pieces = [body[place : place + PIECE] for place in range(0, len(body), PIECE)]
        for piece in pieces[:-1]:
            await line.write(piece)
        await line.flush()
        return pieces[-1]

    async def _deliver(self, turn: OpenTurn, records: Sequence[TurnRecord], notes: Notes) -> None:
        notes.took(records)
        self._desk.allowances.used(self._request.key, notes.prompt_tokens + notes.completion_tokens)
        try:
            await turn.deliver()
        except Exception:
            # The client has it all, and the timeline holds it as offered: nothing is lost.
            log.exception("%s: %s was handed over but not noted", notes.request_id, turn.id)
        notes.end = "delivered"
        self._desk.metrics.delivered(notes, records)

    async def _give_up(
        self, error: BaseException, turn: OpenTurn | None, line: Line, notes: Notes
    ) -> None:
        """Withdraws the turn, and tells the client if it is there."""
        left = isinstance(error, asyncio.CancelledError | GoneError)
        fault = None if left else self._fault(error, notes)
        notes.error = fault.code if fault else None
        notes.end = (fault.code or "error") if fault else "gone" if line.gone else "shutdown"
        if turn is not None:
            await self._withdraw(turn, notes)
        if fault and not line.gone:
            with suppress(TimeoutError, GoneError):
                async with asyncio.timeout(TELL_S):
                    await self._tell(fault, line)

    def _fault(self, error: BaseException, notes: Notes) -> ApiError:
        if isinstance(error, TimeoutError):
            return errors.too_slow(self._desk.config.limits.turn_s)
        return errors.told(error, notes.request_id)

    async def _withdraw(self, turn: OpenTurn, notes: Notes) -> None:
        self._desk.metrics.withdrawn(notes)
        try:
            await turn.withdraw()
        except Exception:
            log.exception("%s: %s could not be withdrawn", notes.request_id, turn.id)

    async def _tell(self, fault: ApiError, line: Line) -> None:
        if not line.started:
            body = sse.dumps(fault.body())
            await line.start(fault.status, json_headers(body) | fault.headers)
            await line.end(body)
        elif self._stream:
            await line.end(self._form.broken(fault))


def json_headers(body: bytes) -> dict[str, str]:
    """Of a whole JSON body."""
    return {"content-type": "application/json", "content-length": str(len(body))}
