"""Messages that stand for others while a chat template is asked what it writes."""

import json
from collections.abc import Sequence
from typing import Any

from macaron.messages import FunctionCall, Message, ToolCall

PLACEHOLDERS = ("0", "1")
"""Two responses: what is rendered alike after them is no part of them."""
QUESTION: Message = {"role": "user", "content": "."}


def exchange(words: str, calls: Sequence[ToolCall]) -> list[Message]:
    """A question and a response of these words that makes calls of these names."""
    response: Message = {"role": "assistant", "content": words}
    if calls:
        response["tool_calls"] = [_placeholder(call, words) for call in calls]
    return [QUESTION, response]


def _placeholder(call: ToolCall, words: str) -> ToolCall:
    # Arguments that differ: some templates write calls and leave the content out.
    arguments = json.dumps({"value": words})
    function: FunctionCall = {"name": call["function"]["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": function}


def arguments_object(call: ToolCall) -> Any:
    """A call's arguments as an object, for templates that write them as JSON themselves."""
    try:
        value = json.loads(call["function"]["arguments"] or "{}")
    except (ValueError, RecursionError):
        return {"text": call["function"]["arguments"]}
    return value if isinstance(value, dict) else {"value": value}


def as_user(message: Message) -> Message:
    """A tool's result as a user's message, for templates that know no tools."""
    if message["role"] != "tool":
        return message
    content = f"<tool_response>\n{message['content']}\n</tool_response>"
    return {"role": "user", "content": content}


def any_call(arguments: str = "{}") -> ToolCall:
    """Some call."""
    return {
        "id": "000000000",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }


def any_result(text: str = ".") -> Message:
    """The result of `any_call`."""
    return {"role": "tool", "content": text, "tool_call_id": "000000000"}
