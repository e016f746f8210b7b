"""Why a turn ended: every outcome has a name."""

from typing import Literal, get_args

Stop = Literal[
    "answer",
    "length",
    "rounds",
    "malformed",
    "context",
    "refused",
    "turns",
    "calls",
    "time",
    "sandbox",
    "tool",
]
"""
- `answer`: the specialist answered.
- `length`: its response was cut at the longest allowed; the answer is what there is of it.
- `rounds`: it still wanted to act when its rounds were used up.
- `malformed`: so it did, and no call of its last response could be read.
- `context`: the conversation fills the context.
- `refused`: a hook refused the turn; the answer is the hook's text.
- `turns`: the session has had all its turns.
- `calls`: the client has to make calls before the specialist can go on.
- `time`: the turn took longer than the session allows.
- `sandbox`: the sandbox itself failed.
- `tool`: a tool broke; a tool that merely says no is the model's to read.
"""

STOPS: tuple[Stop, ...] = get_args(Stop)

FAILED: frozenset[Stop] = frozenset({"context", "turns", "time", "sandbox", "tool"})
"""After these the session is as it was before the turn, and there is nothing to deliver."""
