"""Responses out: bodies and the sequence of events that OpenAI's clients expect.

A step, which the server's own tools make, is an event `macaron.step` that clients pass over.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from macaron.serve.http import response_items as items
from macaron.serve.http import sse
from macaron.serve.http.errors import ApiError
from macaron.serve.http.response_body import Echo, failed, response
from macaron.serve.records import TurnRecord
from macaron.serve.turns import Delta, Event, OpenTurn, Step

Told = tuple[str, dict[str, Any]]


class ResponseForm:
    """Of one request.

    Args:
        model: the public name.
        echo: what is repeated of the request.
    """

    def __init__(self, model: str, echo: Echo) -> None:
        self._model, self._echo = model, echo
        self._number = 0
        self._speaks = False
        """A message has been begun."""
        self._body: Callable[[TurnRecord | None], dict[str, Any]]
        self._turn = ""

    def whole(self, turn: OpenTurn, records: Sequence[TurnRecord]) -> dict[str, Any]:
        """A `response`."""
        return response(turn.id, turn.created, self._model, self._echo, records[0])

    def opening(self, turn: OpenTurn) -> bytes:
        """`response.created` and `response.in_progress`."""
        self._turn = turn.id
        self._body = lambda record: response(turn.id, turn.created, self._model, self._echo, record)
        return self._events(
            (kind, {"response": self._body(None)})
            for kind in ("response.created", "response.in_progress")
        )

    def piece(self, event: Event) -> bytes:
        """A delta of the text, behind the message's beginning; or a step."""
        if isinstance(event, Step):
            return self._step(event)
        if not isinstance(event, Delta) or not event.text:
            return b""
        begin = b"" if self._speaks else self._events(self._begin())
        delta = {**self._place(), "delta": event.text, "logprobs": []}
        return begin + self._events([("response.output_text.delta", delta)])

    def ending(self, records: Sequence[TurnRecord]) -> bytes:
        """The items' ends, and `response.completed` or `response.incomplete`."""
        (record,) = records
        body = self._body(record)
        parts = [] if self._speaks or not items.has_message(record) else [*self._begin()]
        if items.has_message(record) or self._speaks:
            parts += self._end(record.answer, body["status"])
        parts += self._calls(record)
        return self._events([*parts, (f"response.{body['status']}", {"response": body})])

    def broken(self, error: ApiError) -> bytes:
        """`response.failed`, then OpenAI's error as an event."""
        failure = self._events([("response.failed", {"response": failed(self._body(None), error)})])
        # The client's library looks for `error`; the documented event has its fields beside it.
        event = {**error.body()["error"], **error.body(), "type": "error"}
        return failure + sse.data({**event, "sequence_number": self._number}, "error")

    def _begin(self) -> Iterator[Told]:
        self._speaks = True
        item = items.message(self._turn, "in_progress", None)
        yield "response.output_item.added", {"output_index": 0, "item": item}
        yield "response.content_part.added", {**self._place(), "part": items.part("")}

    def _end(self, text: str, status: str) -> Iterator[Told]:
        yield "response.output_text.done", {**self._place(), "text": text, "logprobs": []}
        yield "response.content_part.done", {**self._place(), "part": items.part(text)}
        item = items.message(self._turn, status, text)
        yield "response.output_item.done", {"output_index": 0, "item": item}

    def _calls(self, record: TurnRecord) -> Iterator[Told]:
        for place, made in enumerate(record.open_calls):
            at = place + int(self._speaks)
            arguments = made["function"]["arguments"]
            here = {"output_index": at, "item_id": items.call_id(self._turn, place)}
            begun = items.call(self._turn, place, made, "in_progress", "")
            done = items.call(self._turn, place, made, "completed", arguments)
            named = {"name": made["function"]["name"], "arguments": arguments}
            yield "response.output_item.added", {"output_index": at, "item": begun}
            yield "response.function_call_arguments.delta", {**here, "delta": arguments}
            yield "response.function_call_arguments.done", {**here, **named}
            yield "response.output_item.done", {"output_index": at, "item": done}

    def _step(self, step: Step) -> bytes:
        function = step.call["function"]
        told = {"call_id": step.call["id"], **function, "result": step.result}
        return self._events([("macaron.step", told)])

    def _place(self) -> dict[str, Any]:
        return {"item_id": items.message_id(self._turn), "output_index": 0, "content_index": 0}

    def _events(self, told: Iterator[Told] | Sequence[Told]) -> bytes:
        return b"".join(self._event(kind, content) for kind, content in told)

    def _event(self, kind: str, content: dict[str, Any]) -> bytes:
        event = {"type": kind, **content, "sequence_number": self._number}
        self._number += 1
        return sse.data(event, kind)
