"""A session's past: its delivered turns, from which every specialist's view can be rebuilt.

The same past gives the same view, token for token, whoever asks and whenever.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from macaron.messages import Message, ToolCall


@dataclass(frozen=True)
class Past:
    """One delivered turn, as later turns need it."""

    specialist: str
    given: tuple[Message, ...]
    """Its new messages as other specialists see them: without skills and notes."""
    heard: tuple[Message, ...]
    """The same as the specialist itself saw them."""
    answer: str
    tail: tuple[int, ...] = ()
    """Ids from the first sampled one to the turn's end; empty where the specialist saw nothing."""
    calls: tuple[ToolCall, ...] = ()
    """What the client has to do before the specialist can go on, all calls of the response."""
    results: tuple[Message, ...] = ()
    """Results of those of the calls that are done already."""
    skills: frozenset[str] = frozenset()
    """Loaded in the specialist's view at the turn's end."""
    acted: bool = False
    """Whether it used tools or ran code."""
    summary: str | None = None
    """What stands for the answer where it would be too long; None: the answer itself."""

    @property
    def told(self) -> str:
        """What other specialists see in place of the answer."""
        return self.answer if self.summary is None else self.summary


def as_a_user_saw(past: Sequence[Past]) -> list[Message]:
    """The conversation in full."""
    return [message for turn in past for message in (*turn.given, _answer(turn, turn.answer))]


def as_others_see(turn: Past, unanswered: str = "") -> list[Message]:
    """A turn as a specialist sees it that did not answer it.

    Calls that a client makes, and their results, are between the client and who made them: of such
    a turn, the user's words stay, and what came of it is told with the turn that ends it.

    Args:
        turn: the turn.
        unanswered: what the turn before left open where this one does not go on with it.
    """
    words = [message for message in turn.given if message["role"] != "tool"]
    # Two user messages in a row are more than some templates take.
    before: list[Message] = (
        [{"role": "assistant", "content": unanswered}] if unanswered and words else []
    )
    after = [] if turn.calls else [_answer(turn, turn.told)]
    return [*before, *words, *after]


def left_open(turn: Past) -> str:
    """What a turn says of calls that nobody answered; "" where it left none."""
    return turn.told or "(no answer)" if turn.calls else ""


def folded(own: int, keep: int) -> int:
    """How many of a specialist's own turns, the oldest ones, it sees as others do.

    The number grows in steps of `keep`, so that between two steps what it sees only grows at its
    end.

    Args:
        own: its turns.
        keep: the fewest that it sees in full; 0 means all.
    """
    return keep * max(0, own // keep - 1) if keep else 0


def _answer(turn: Past, text: str) -> Message:
    if turn.calls:
        return {"role": "assistant", "content": text, "tool_calls": list(turn.calls)}
    return {"role": "assistant", "content": text}
