"""Tool calls as models write them: text into calls, and calls into text.

Nothing in here raises for what a model wrote: a call that can't be read says why.

The form is Hermes', which the Qwen family shares: `<tool_call>{"name": ..., "arguments":
{...}}</tool_call>`, as many as there are calls to make.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from macaron.harness.cut import well_formed
from macaron.harness.tools import ToolFault, parse_json
from macaron.messages import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_TAG = re.compile(re.escape(OPEN) + "|" + re.escape(CLOSE))
THOUGHT_OPEN, THOUGHT_CLOSE = "<think>", "</think>"
FORM = f'{OPEN}{{"name": "<tool>", "arguments": {{...}}}}{CLOSE}'


@dataclass(frozen=True)
class Call:
    """One call in a response."""

    name: str
    """Empty where it has none."""
    arguments: str
    """JSON text; all that stood there where the call can't be read."""
    error: str = ""
    """Why it can't be read, for the model."""


@dataclass(frozen=True)
class Parsed:
    """A response, taken apart."""

    content: str
    """The text outside of the calls."""
    calls: tuple[Call, ...]
    before: str = ""
    """Of the content, what stands before the first call."""


def without_thought(text: str) -> str:
    """What a response says once it has thought; reasoning is no answer and makes no calls."""
    _, closed, after = text.rpartition(THOUGHT_CLOSE)
    if closed:
        return after.lstrip("\n")
    thinks_still = text.lstrip().startswith(THOUGHT_OPEN)
    return "" if thinks_still else text


def parse_calls(text: str) -> Parsed:
    """The calls in a response and the text around them."""
    outside: list[str] = []
    calls: list[Call] = []
    place = 0
    while tag := _TAG.search(text, place):
        outside.append(text[place : tag.start()])
        if tag.group() == CLOSE:
            calls.append(_unreadable("", f"{CLOSE} without {OPEN} before it"))
            place = tag.end()
            continue
        call, place = _one(text, tag.end())
        calls.append(call)
    outside.append(text[place:])
    if not calls:
        return Parsed(text, ())
    return Parsed("".join(outside).strip(), tuple(calls), outside[0].rstrip())


def _one(text: str, start: int) -> tuple[Call, int]:
    """The call whose opening tag ends at `start`, and where it ends."""
    tag = _closing(text, start)
    if tag is None:
        body = text[start:]
        return _unreadable(body, f"{OPEN} is not closed with {CLOSE}"), len(text)
    body = text[start : tag.start()]
    if tag.group() == OPEN:
        end = _end_of_nest(text, tag.end())
        body = text[start:end]
        return _unreadable(body, f"{OPEN} stands inside another; close one before the next"), end
    return _read(body.strip()), tag.end()


def _closing(text: str, start: int) -> re.Match[str] | None:
    """The tag that follows; those inside of the call's JSON are its own text."""
    body = len(text[start:]) - len(text[start:].lstrip())
    try:
        _, end = json.JSONDecoder().raw_decode(text, start + body)
    except (ValueError, RecursionError):
        end = start
    return _TAG.search(text, end)


def _end_of_nest(text: str, place: int) -> int:
    depth = 2
    while depth and (tag := _TAG.search(text, place)):
        depth += 1 if tag.group() == OPEN else -1
        place = tag.end()
    return len(text) if depth else place


def _read(body: str) -> Call:
    try:
        value = parse_json(body)
    except ToolFault as fault:
        return _unreadable(body, fault.text)
    if not isinstance(value, dict):
        return _unreadable(body, "a call is a JSON object")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return _unreadable(body, 'the call has no "name"')
    unknown = sorted(value.keys() - {"name", "arguments"})
    if unknown:
        return _unreadable(body, f"the call has more than a name and arguments: {unknown}", name)
    arguments = value.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Call(well_formed(name), well_formed(text))


def _unreadable(body: str, why: str, name: str = "") -> Call:
    error = f"this tool call can't be read: {why}. Write {FORM}"
    return Call(well_formed(name), body.strip(), error)


def to_openai(calls: Sequence[Call], new_id: Callable[[int], str]) -> list[ToolCall]:
    """The calls in OpenAI's form.

    Args:
        calls: of one response.
        new_id: the id of its n-th call.
    """
    return [
        {
            "id": new_id(number),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for number, call in enumerate(calls)
    ]


def to_text(content: str, calls: Sequence[ToolCall]) -> str:
    """A response with these calls as a model would write it; `parse_calls` reads it back."""
    written = [f"{OPEN}\n{_json(call)}\n{CLOSE}" for call in calls]
    return "\n".join([content, *written] if content else written)


def _json(call: ToolCall) -> str:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    try:
        value = parse_json(arguments) if arguments.strip() else {}
    except ToolFault:
        # What can't be read stays as it was written.
        return arguments
    return json.dumps({"name": name, "arguments": value}, ensure_ascii=False)
