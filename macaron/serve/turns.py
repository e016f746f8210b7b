"""What passes between HTTP and the service: a request for a turn, and what happens in it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from macaron.errors import MacaronError
from macaron.experience.schema import Feedback
from macaron.harness.stops import Stop
from macaron.harness.wishes import Wishes
from macaron.messages import Message, ToolCall
from macaron.serve.records import TurnRecord

Why = Literal["routed", "tool_result", "default", "only"]
"""
- `routed`: L0 chose.
- `tool_result`: the answer to a call goes back to who made it.
- `default`: the router failed, and the HCP names a default.
- `only`: the HCP has but one specialist.
"""


@dataclass(frozen=True)
class ClientTool:
    """A function that the client offers and runs itself."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of an object."""


@dataclass(frozen=True)
class TurnRequest:
    """One request of a client, the same for both endpoints."""

    kind: Literal["response", "chat"]
    """Which endpoint; it names the turn's id."""
    key: str
    """Id of the API key."""
    messages: Sequence[Message]
    """What is new: users' messages or results of the client's tools at the end. No system ones."""
    previous: str | None = None
    """The turn to go on from; None begins a session."""
    instructions: str = ""
    """The client's system prompt."""
    tools: Sequence[ClientTool] = ()
    tool_choice: str = "auto"
    """`auto`, `none`, `required`, or a client tool's name."""
    wishes: Wishes = field(default_factory=Wishes)
    n: int = 1
    """Answers wanted, each a turn of its own."""
    user: str | None = None
    """The client's name for the end user; kept as a pseudonym only."""
    store: bool = True
    """Whether the client can go on from the turn."""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Route:
    """Which specialist answers, and why."""

    specialist: str
    """Its key in the HCP, such as L2."""
    name: str
    """The router's label for it, such as coding."""
    why: Why
    confidence: float | None = None
    """The router's probability of the label among all labels; None where it was not asked."""
    tokens: int = 0
    """Tokens that routing cost."""
    ms: float = 0.0


@dataclass(frozen=True)
class Delta:
    """A further piece of an answer's text."""

    index: int
    """Of the choice, from 0."""
    text: str


@dataclass(frozen=True)
class Step:
    """The specialist used a tool of the server's: for a page to show, not a part of the answer."""

    index: int
    call: ToolCall
    result: str | None = None
    """None while it runs."""


@dataclass(frozen=True)
class Finished:
    """A choice is complete, and every piece of its text has been given."""

    index: int
    turn: TurnRecord


Event = Delta | Step | Finished


class TurnError(MacaronError):
    """A turn that failed in itself; its session is as it was before.

    Args:
        what: the fault, in the client's words.
        stop: why, one of `harness.stops.FAILED`.
        mend: what the client can do about it.
    """

    def __init__(self, what: str, stop: Stop, *, mend: str = "") -> None:
        self.stop = stop
        super().__init__(what, mend=mend)

    def __reduce__(self) -> tuple[object, ...]:
        return (_turn_error, (self.what, self.stop, self.mend))


def _turn_error(what: str, stop: Stop, mend: str) -> TurnError:
    return TurnError(what, stop, mend=mend)


class OpenTurn(Protocol):
    """A turn that is being answered. End it with `deliver` or `withdraw`."""

    id: str
    """Of the first choice."""
    route: Route
    pair: str
    hcp: str
    created: int
    """Unix seconds."""

    def events(self) -> AsyncIterator[Event]:
        """What happens, to the end of every choice; a choice's record comes with its end.

        Raises:
            TurnError: the turn failed in itself, as by its length.
            MacaronError: it failed otherwise. In both cases the session is as it was before.
        """
        ...

    async def offer(self) -> None:
        """Writes the turn down, once all choices are complete: call before the last byte goes out.

        Raises:
            StorageError: it cannot be kept; then it must not be delivered.
        """
        ...

    async def deliver(self) -> None:
        """The answer went out whole: it is history and experience."""
        ...

    async def withdraw(self) -> None:
        """It did not: no trace is left. After `deliver`, it does nothing."""
        ...


class Service(Protocol):
    """What the endpoints call."""

    async def begin(self, request: TurnRequest) -> OpenTurn:
        """Finds the session, its pair and the specialist; answering begins with `events`.

        Raises:
            UnknownTurnError: `previous` is no turn of this key.
            ConfigError: the request contradicts the harness, such as a tool's name taken twice.
            BusyError: too much runs already.
        """
        ...

    async def get(self, id: str, key: str) -> TurnRecord | None:
        """A turn of this key."""
        ...

    async def delete(self, id: str, key: str) -> bool:
        """Forgets a turn for its client."""
        ...

    async def feedback(self, id: str, key: str, feedback: Feedback) -> None:
        """Keeps what was said of a turn; on return it is on the disk.

        Raises:
            UnknownTurnError: no such turn of this key.
            ExperienceError: it does not fit the schema.
        """
        ...

    def health(self) -> Mapping[str, Any]:
        """`status` (ok or starting), `pair`, `hcp`, `generation`, `engine`, `since`."""
        ...

    async def close(self) -> None:
        """Ends running turns undelivered and closes what is open."""
        ...
