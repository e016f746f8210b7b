"""A turn as the output items of a response; the same turn always gives the same items and ids."""

from typing import Any

from macaron.messages import ToolCall
from macaron.serve.records import TurnRecord


def message_id(turn: str) -> str:
    """Of the message that answers."""
    return f"msg_{turn.partition('_')[2] or turn}"


def call_id(turn: str, place: int) -> str:
    """Of a call's item."""
    return f"fc_{turn.partition('_')[2] or turn}_{place}"


def part(text: str) -> dict[str, Any]:
    """A message's only part."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message(turn: str, status: str, text: str | None) -> dict[str, Any]:
    """The message that answers; without text it has no part yet."""
    return {
        "id": message_id(turn),
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [] if text is None else [part(text)],
    }


def call(turn: str, place: int, made: ToolCall, status: str, arguments: str) -> dict[str, Any]:
    """A call of a client's tool."""
    return {
        "id": call_id(turn, place),
        "type": "function_call",
        "status": status,
        "call_id": made["id"],
        "name": made["function"]["name"],
        "arguments": arguments,
    }


def has_message(record: TurnRecord) -> bool:
    """Whether there is an answer beside the calls; without calls there always is one."""
    return bool(record.answer) or not record.open_calls


def output(record: TurnRecord, status: str) -> list[dict[str, Any]]:
    """All items of a turn."""
    items = [message(record.id, status, record.answer)] if has_message(record) else []
    calls = enumerate(record.open_calls)
    done = "completed"
    return items + [
        call(record.id, i, made, done, made["function"]["arguments"]) for i, made in calls
    ]
