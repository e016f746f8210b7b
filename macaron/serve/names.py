"""Public names: of turns, and of the calls that a client makes.

A call's public name says which specialist made it, so that its result finds the way back even where
the server keeps nothing of the turn.
"""

import secrets
from typing import Literal

_CALL = "call_"


def new_turn_id(kind: Literal["response", "chat"]) -> str:
    """A name that nobody can guess."""
    prefix = "resp_" if kind == "response" else "chatcmpl-"
    return prefix + secrets.token_hex(16)


def choice_id(turn: str, index: int) -> str:
    """The name of a request's n-th answer."""
    return f"{turn}-{index}" if index else turn


def public_call(specialist: str, call: str) -> str:
    """The name by which a client knows a call."""
    return f"{_CALL}{specialist}_{call}"


def private_call(public: str) -> tuple[str | None, str]:
    """The specialist that made a call, and the name by which it knows it; None for one not ours."""
    specialist, found, call = public.removeprefix(_CALL).rpartition("_")
    if not public.startswith(_CALL) or not found or not specialist:
        return None, public
    return specialist, call
