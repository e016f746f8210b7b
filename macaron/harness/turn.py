"""A turn: what a session asks an engine for, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from macaron.engines.base import SampleParams
from macaron.harness.hooks import Firing, Hooks
from macaron.harness.past import Past
from macaron.harness.speech import Speech
from macaron.harness.stops import FAILED, Stop
from macaron.harness.tools import FaultKind
from macaron.harness.use import TurnTools
from macaron.harness.view import View
from macaron.harness.wishes import NO_WISHES, Wishes
from macaron.messages import Message, ToolCall


@dataclass(frozen=True)
class Request:
    """One response to sample."""

    prompt: tuple[int, ...]
    specialist: str
    params: SampleParams


@dataclass(frozen=True)
class Turn:
    """A finished turn. Sequences over tokens have one length."""

    specialist: str
    messages: tuple[Message, ...]
    """The new ones: those given, as the specialist saw them, its own and its tools' results."""
    answer: str
    """For the user; empty where the turn ended without one."""
    stop_reason: Stop
    token_ids: tuple[int, ...] = ()
    """All that the specialist has seen and sampled in the session, up to the turn's end."""
    loss_mask: tuple[bool, ...] = ()
    """True on the tokens sampled in this turn; those of earlier turns are its prompt."""
    logprobs: tuple[float, ...] = ()
    """log p of this turn's sampled tokens; 0 on the others."""
    rounds: int = 0
    """Responses sampled."""
    calls: int = 0
    """Tool calls made."""
    firings: tuple[Firing, ...] = ()
    """Of the hooks, in their order."""
    faults: Mapping[FaultKind, int] = field(default_factory=dict)
    """Calls that came to nothing, by why."""
    error: str = ""
    """What failed, for a person; not shown to the user."""
    given: tuple[Message, ...] = ()
    """Of the messages, the new ones as other specialists see them."""
    heard: tuple[Message, ...] = ()
    """The same as this one saw them."""
    tail: tuple[int, ...] = ()
    """Of the ids, those from the first one sampled in this turn."""
    open_calls: tuple[ToolCall, ...] = ()
    """What the client has to call."""

    @property
    def failed(self) -> bool:
        """Whether the session has gone back to before the turn: there is nothing to deliver."""
        return self.stop_reason in FAILED


@dataclass
class OpenTurn:
    """A turn in the making."""

    specialist: str
    view: View
    hooks: Hooks
    tools: TurnTools
    number: int
    """Turns that the session had before it."""
    started: float
    """Seconds of the session's clock."""
    given: list[Message]
    """As other specialists will see them: without skills and notes."""
    messages: list[Message]
    mark: int
    """Tokens of the transcript before the turn."""
    loaded: frozenset[str]
    """Skills loaded before the turn."""
    wishes: Wishes = NO_WISHES
    """What the caller wants otherwise."""
    heard: tuple[Message, ...] = ()
    rounds: int = 0
    sampled: bool = False
    """Whether the transcript holds the given messages."""
    start: int = 0
    """Tokens of the transcript before the first sampled one."""
    calls: tuple[ToolCall, ...] = ()
    """Of the last response, where the client has to make some of them."""
    results: tuple[Message, ...] = ()
    """Of those of them that are made."""
    open_calls: tuple[ToolCall, ...] = ()

    @property
    def stops(self) -> tuple[str, ...]:
        """Texts that end a response."""
        return (*self.view.config.stop, *self.wishes.stop)

    @property
    def opening(self) -> str:
        """What the next response begins with, though it is not sampled."""
        return self.wishes.opening if self.rounds == 0 else ""

    def speech(self) -> Speech:
        """What may be shown of the next response."""
        listens = self.hooks.listen("after_turn") or self.hooks.listen("before_stop")
        # With tools of its own, what it says before a call is no part of the answer.
        acts = len(self.view.box) > len(self.view.handed)
        return Speech(
            self.view.template,
            self.stops,
            holds=listens or acts or self.view.config.surface == "repl",
            calls=bool(self.view.handed),
            thinks=self.view.thinks,
            begins=self.opening,
        )

    def close(self, stop: Stop, answer: str, error: str = "") -> Turn:
        """The turn as it ended."""
        transcript, mark = self.view.transcript, self.mark
        earlier = [False] * mark
        return Turn(
            specialist=self.specialist,
            messages=tuple(self.messages),
            answer=answer,
            stop_reason=stop,
            token_ids=tuple(transcript.ids),
            loss_mask=(*earlier, *transcript.mask[mark:]),
            logprobs=(*([0.0] * mark), *transcript.logprobs[mark:]),
            rounds=self.rounds,
            calls=self.tools.calls,
            firings=tuple(self.hooks.firings),
            faults=dict(self.tools.faults),
            error=error,
            given=tuple(self.given),
            heard=self.heard,
            tail=tuple(transcript.ids[self.start :]) if self.sampled else (),
            open_calls=self.open_calls,
        )

    def past(self, answer: str) -> Past:
        """The turn as later ones need it."""
        return Past(
            specialist=self.specialist,
            given=tuple(self.given),
            heard=self.heard,
            answer=answer,
            tail=tuple(self.view.transcript.ids[self.start :]) if self.sampled else (),
            calls=self.calls,
            results=self.results,
            skills=self.view.skills.loaded,
            acted=self.rounds > 1 or bool(self.tools.calls),
        )
