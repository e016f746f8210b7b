"""Messages that stand for others while a chat template is asked what it writes."""

import json
from collections.abc import Sequence
from typing import Any

from macaron.harness.calls import to_text
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


def without_tools(messages: Sequence[Message]) -> list[Message]:
    """The messages for templates that know no tools: calls as text, results as a user's message.

    Results of one response share a message, because such templates want roles to alternate.
    """
    changed: list[Message] = []
    for before, message in zip([None, *messages], messages, strict=False):
        if message["role"] == "assistant" and message.get("tool_calls"):
            text = to_text(message["content"], message["tool_calls"])
            changed.append({"role": "assistant", "content": text})
        elif message["role"] != "tool":
            changed.append(message)
        else:
            shown = f"<tool_response>\n{message['content']}\n</tool_response>"
            if before is not None and before["role"] == "tool":
                shown = f"{changed.pop()['content']}\n{shown}"
            changed.append({"role": "user", "content": shown})
    return changed


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
