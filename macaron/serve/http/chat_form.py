"""Chat completions out: bodies and chunks as OpenAI's clients read them."""

from collections.abc import Iterator, Sequence
from typing import Any

from macaron.messages import ToolCall
from macaron.serve.http import sse
from macaron.serve.http.errors import ApiError
from macaron.serve.http.finish import finish_reason
from macaron.serve.http.usage import chat_usage
from macaron.serve.records import TurnRecord
from macaron.serve.turns import Delta, Event, OpenTurn


class ChatForm:
    """Of one request.

    Args:
        model: the public name.
        n: answers wanted.
        usage: whether a stream ends with what it cost.
        metadata: the client's, given back.
    """

    def __init__(self, model: str, n: int, usage: bool, metadata: dict[str, str] | None) -> None:
        self._model, self._n, self._usage, self._metadata = model, n, usage, metadata
        self._head: dict[str, Any] = {}

    def whole(self, turn: OpenTurn, records: Sequence[TurnRecord]) -> dict[str, Any]:
        """A `chat.completion`."""
        choices = [_choice(index, record) for index, record in enumerate(records)]
        body = self._of(turn, "chat.completion")
        body |= {"choices": choices, "usage": chat_usage(records)}
        return body | ({"metadata": self._metadata} if self._metadata else {})

    def opening(self, turn: OpenTurn) -> bytes:
        """A chunk for each choice that says who speaks."""
        self._head = self._of(turn, "chat.completion.chunk")
        delta = {"role": "assistant", "content": "", "refusal": None}
        return b"".join(self._delta(index, delta) for index in range(self._n))

    def piece(self, event: Event) -> bytes:
        """A chunk with text; steps are the server's own and not part of a completion."""
        if isinstance(event, Delta) and event.text:
            return self._delta(event.index, {"content": event.text})
        return b""

    def ending(self, records: Sequence[TurnRecord]) -> bytes:
        """Calls and the finish of each choice, then the usage and the end."""
        parts = [part for index, record in enumerate(records) for part in self._end(index, record)]
        if self._usage:
            parts.append(sse.data({**self._head, "choices": [], "usage": chat_usage(records)}))
        return b"".join([*parts, sse.DONE])

    def broken(self, error: ApiError) -> bytes:
        """OpenAI's error as an event."""
        return sse.data(error.body(), "error")

    def _end(self, index: int, record: TurnRecord) -> Iterator[bytes]:
        for place, call in enumerate(record.open_calls):
            yield self._delta(index, {"tool_calls": [{"index": place, **_call(call)}]})
        yield self._delta(index, {}, finish_reason(record))

    def _delta(self, index: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        # With usage asked for, OpenAI has the field in every chunk.
        usage = {"usage": None} if self._usage else {}
        return sse.data({**self._head, "choices": [choice], **usage})

    def _of(self, turn: OpenTurn, kind: str) -> dict[str, Any]:
        return {
            "id": turn.id,
            "object": kind,
            "created": turn.created,
            "model": self._model,
            "system_fingerprint": turn.pair,
            "service_tier": "default",
        }


def _choice(index: int, record: TurnRecord) -> dict[str, Any]:
    calls = [_call(call) for call in record.open_calls]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": record.answer or (None if calls else ""),
        "refusal": None,
        "annotations": [],
    }
    if calls:
        message["tool_calls"] = calls
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": finish_reason(record),
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call["id"], "type": "function", "function": dict(call["function"])}
