"""Turns as the timeline keeps them: all that a session's views are rebuilt from, and no more.

A record is written before the last byte of its answer goes out, and is never changed afterwards
but for its state and its summary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from macaron.harness.stops import Stop
from macaron.messages import Message, ToolCall

State = Literal["offered", "delivered"]
"""
- `offered`: written; whether its answer arrived is not known yet.
- `delivered`: the answer went out whole, or the client has spoken of it since.
"""


@dataclass(frozen=True)
class TurnRecord:
    """One turn. Sequences over tokens (`token_ids`, `loss_mask`, `logprobs`) have one length."""

    id: str
    """The turn's public name: `resp_...` or `chatcmpl-...`, and for the choices of a request after
    its first one the same with `-1`, `-2`, ... behind it."""
    previous: str | None
    """The turn that it follows."""
    session: str
    """The id of its first turn."""
    number: int
    """Turns before it in the session."""
    created_at: str
    """ISO 8601, UTC."""
    key: str
    """Id of the API key that asked; no other key sees the turn."""
    user: str | None
    """Pseudonym of the end user."""
    stored: bool
    """Whether the client can go on from it."""
    pair: str
    hcp: str
    specialist: str
    adapter: str | None
    route: Mapping[str, Any]
    """Why this specialist."""
    seed: int
    """Of the session."""
    instructions: str
    """The client's, beside the specialist's system prompt."""
    tools: Sequence[Mapping[str, Any]]
    """The client's, in OpenAI's form."""
    given: Sequence[Message]
    """The new messages, as the client gave them."""
    heard: Sequence[Message]
    """The same as the specialist saw them: with notes and skills."""
    said: Sequence[Message]
    """What came after: the specialist's own messages and its tools' results, the answer last."""
    answer: str
    open_calls: Sequence[ToolCall]
    """Calls that the client has to make."""
    stop_reason: Stop
    skills: Sequence[str]
    """Loaded in the specialist's view at the turn's end."""
    sampled: bool
    """Whether the specialist saw the turn: one that a hook refused it did not."""
    tail_ids: Sequence[int]
    """From the first sampled token on, to the turn's end."""
    token_ids: Sequence[int]
    """All that the specialist had seen and sampled, for the experience."""
    loss_mask: Sequence[bool]
    logprobs: Sequence[float]
    usage: Mapping[str, Any]
    timings_ms: Mapping[str, float]
    summary: str | None = None
    """What other specialists see of the turn in place of its answer; None: the answer itself, or
    not made yet."""
    state: State = "offered"
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The client's."""
