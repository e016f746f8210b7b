"""A request as a session takes it: private names of calls, the client's tools, what is forced."""

import json
import secrets
from collections.abc import Sequence
from typing import Any

from macaron.engines.randomness import derive
from macaron.errors import ConfigError
from macaron.harness.calls import OPEN
from macaron.harness.tools import Tool, ToolFault
from macaron.harness.view import Setting
from macaron.harness.wishes import Wishes
from macaron.hcp.document import HCP
from macaron.messages import Message
from macaron.mol.playing import Begun
from macaron.serve.names import private_call
from macaron.serve.records import TurnRecord
from macaron.serve.turns import ClientTool, TurnRequest


def begun(request: TurnRequest, hcp: HCP, specialist: str) -> Begun:
    """What the turn is begun with.

    Raises:
        ConfigError: a call is asked for that this specialist cannot be made to make.
    """
    tools = () if request.tool_choice == "none" else tuple(map(_tool, request.tools))
    setting = Setting(request.instructions, tools)
    opening = _opening(request, hcp, specialist)
    wishes = Wishes(**{**vars(request.wishes), "opening": opening})
    return Begun(private_names(request.messages), specialist, wishes, setting)


def caller(messages: Sequence[Message], chain: Sequence[TurnRecord]) -> str | None:
    """The specialist whose calls' results come in; None where none do.

    Args:
        messages: the client's, with public names of calls.
        chain: the turns before.

    Raises:
        ConfigError: they are results of other calls.
    """
    if not messages or messages[-1]["role"] != "tool":
        return None
    if not chain:
        return private_call(messages[-1].get("tool_call_id", ""))[0]
    asked = {call["id"] for call in chain[-1].open_calls}
    if asked != {message.get("tool_call_id") for message in messages}:
        raise ConfigError(
            "the results are not those of the open calls",
            where="tool_call_id",
            mend="give one result for each call of the turn before, and nothing else",
        )
    return chain[-1].specialist


def session_seed(request: TurnRequest, chain: Sequence[TurnRecord], index: int) -> int:
    """The seed of a choice's session: the session's own for the first, others of their own."""
    if chain:
        first = chain[0].seed
    else:
        wished = request.wishes.seed
        first = secrets.randbits(62) if wished is None else wished
    return derive(first, "choice", index) if index else first


def private_names(messages: Sequence[Message]) -> list[Message]:
    """The messages with calls named as the specialists know them."""
    return [_private(message) for message in messages]


def _private(message: Message) -> Message:
    changed: Message = {**message}
    if "tool_call_id" in message:
        changed["tool_call_id"] = private_call(message["tool_call_id"])[1]
    if "tool_calls" in message:
        calls = message["tool_calls"]
        changed["tool_calls"] = [{**call, "id": private_call(call["id"])[1]} for call in calls]
    return changed


def _opening(request: TurnRequest, hcp: HCP, specialist: str) -> str:
    """How the response must begin for a call that the client demands."""
    choice, names = request.tool_choice, [tool.name for tool in request.tools]
    if choice in ("auto", "none"):
        return ""
    if hcp.specialists[specialist].surface == "repl":
        raise ConfigError(
            "this turn's specialist acts in Python and makes no calls on demand",
            where="tool_choice",
            mend="ask for auto",
        )
    if choice != "required" and choice not in names:
        raise ConfigError(f"no tool is named {choice!r}", where="tool_choice", mend="offer it")
    if not names:
        raise ConfigError("no tool is offered", where="tool_choice", mend="offer one")
    name = choice if choice != "required" else names[0] if len(names) == 1 else None
    if name is None:
        return f'{OPEN}\n{{"name": "'
    return f'{OPEN}\n{{"name": {json.dumps(name)}, "arguments": '


def _tool(given: ClientTool) -> Tool:
    return Tool(given.name, given.description, given.parameters, _not_here)


def _not_here(arguments: dict[str, Any]) -> Any:
    raise ToolFault("the client runs this tool")
