"""A turn of one session on a serving engine: tokens as they come, tools beside the event loop."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass

from macaron.engines.stream import StreamEngine, Ticket
from macaron.harness.session import Session
from macaron.harness.speech import Speech
from macaron.harness.turn import Request, Turn
from macaron.harness.view import BARE, Setting
from macaron.harness.wishes import NO_WISHES, Wishes
from macaron.messages import Message


@dataclass
class Spent:
    """What a turn cost, over all its responses."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompts', those in the prefix cache."""
    completion_tokens: int = 0
    first_token_s: float | None = None
    """From the turn's begin."""


@dataclass(frozen=True)
class Begun:
    """What a turn is begun with."""

    messages: Sequence[Message]
    specialist: str
    wishes: Wishes = NO_WISHES
    setting: Setting = BARE


async def play(
    session: Session,
    begun: Begun,
    engine: StreamEngine,
    adapters: Mapping[str, str],
    spent: Spent,
) -> AsyncGenerator[str | Sequence[Message] | Turn, None]:
    """The turn, neither delivered nor undone at its end; close the iterator to break it off.

    Args:
        session: not in use elsewhere.
        begun: what is new.
        engine: has the base and the adapters.
        adapters: specialist -> adapter revision.
        spent: counts are put here.

    Yields:
        Pieces of the answer's text; the messages of each round in which tools were used; the turn,
        as the last.
    """
    started = asyncio.get_running_loop().time()
    state = await _beside(
        session.begin, begun.messages, begun.specialist, begun.wishes, begun.setting
    )
    told = len(session.said)
    speech: Speech | None = None
    while isinstance(state, Request):
        ticket = engine.submit(state.prompt, adapters.get(state.specialist), state.params)
        speech = session.speech()
        try:
            async for piece in _spoken(ticket, speech, spent, started):
                yield piece
            done = await ticket.completion()
        finally:
            ticket.cancel()
        _count(spent, state, ticket, len(done.token_ids))
        state = await _beside(session.advance, done)
        if isinstance(state, Request) and len(session.said) > told:
            yield session.said[told:]
            told = len(session.said)
    if not state.failed and (rest := _rest(speech, state)):
        yield rest
    yield state


async def _spoken(
    ticket: Ticket, speech: Speech, spent: Spent, started: float
) -> AsyncGenerator[str, None]:
    async for ids in ticket.pieces():
        if spent.first_token_s is None:
            spent.first_token_s = asyncio.get_running_loop().time() - started
        if piece := speech.feed(ids):
            yield piece
        if speech.stopped:
            ticket.cancel()
            return


def _rest(speech: Speech | None, turn: Turn) -> str:
    return speech.rest(turn.answer) if speech is not None else turn.answer


def _count(spent: Spent, request: Request, ticket: Ticket, sampled: int) -> None:
    spent.prompt_tokens += len(request.prompt)
    spent.cached_tokens += ticket.cached_tokens
    spent.completion_tokens += sampled


async def _beside(step: Callable[..., Request | Turn], *arguments: object) -> Request | Turn:
    """A step in a thread of its own, seen to its end even where nobody waits for it any more.

    A session must not be undone while its tools still run.
    """
    running = asyncio.ensure_future(asyncio.to_thread(step, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
