"""Plays sessions with written responses in the place of an engine."""

from collections.abc import Sequence
from typing import Any

from macaron.engines.base import Completion, StopReason
from macaron.harness.session import Session
from macaron.harness.tools import Tool, ToolFault
from macaron.harness.turn import Request, Turn
from macaron.hcp.document import HCP
from macaron.messages import Message

ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
FIND = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


def harness(document: dict[str, Any] | None = None, **changes: Any) -> HCP:
    """A harness of one specialist, L1, with the tools `add` and `find` of the environment.

    Args:
        document: sections beside those; more tools are added to the two.
        changes: of L1's fields.
    """
    document = document or {}
    tools = {
        "add": {"description": "Adds.", "parameters": ADD, "source": "environment"},
        "find": {"description": "Finds.", "parameters": FIND, "source": "environment"},
    }
    specialist = {
        "name": "agent",
        "system": "You act.",
        "max_tokens": 64,
        "temperature": 1.0,
        "tools": ["add", "find"],
        **changes,
    }
    values = {
        "version": "1.1",
        "router": {"system": "route", "default": "L1"},
        "specialists": {"L1": specialist},
        **document,
        "tools": {**tools, **document.get("tools", {})},
    }
    return HCP.model_validate(values)


def environment() -> list[Tool]:
    """`add`, and `find`, which finds nothing but "x"."""

    def find(arguments: dict[str, Any]) -> Any:
        if arguments["id"] == "broken":
            raise KeyError("a bug")
        if arguments["id"] != "x":
            raise ToolFault(f"there is no {arguments['id']}")
        return {"id": "x", "open": True}

    return [
        Tool("add", "", ADD, lambda arguments: arguments["a"] + arguments["b"]),
        Tool("find", "", FIND, find),
    ]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def completion(
    tokenizer: Any, text: str, end: str | None = None, stop: StopReason = "stop"
) -> Completion:
    """A response as an engine gives it: with the end of turn unless it was cut by its length."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    if stop == "stop":
        ids = [*ids, tokenizer.convert_tokens_to_ids(end or tokenizer.eos_token)]
    return Completion(ids, [-0.5 - 0.01 * n for n in range(len(ids))], stop)


def play(
    session: Session,
    tokenizer: Any,
    messages: Sequence[Message],
    responses: Sequence[str | Completion],
    specialist: str = "L1",
) -> tuple[Turn, list[Request]]:
    """A turn with these responses: what came of it, and what was asked for."""
    requests: list[Request] = []
    state = session.begin(messages, specialist)
    for response in responses:
        assert isinstance(state, Request), f"the turn ended before {response!r}: {state}"
        requests.append(state)
        done = completion(tokenizer, response) if isinstance(response, str) else response
        state = session.advance(done)
    assert isinstance(state, Turn), "the turn goes on"
    return state, requests


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
