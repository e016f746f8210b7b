"""The timeline: an append-only store of turns, from which every session is rebuilt.

A turn is in a history exactly when it was delivered: a client can go on only from a turn whose id
it knows, and by speaking of it proves that it arrived.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from macaron.serve.records import TurnRecord


class Timeline(Protocol):
    """Where turns are kept; of one event loop. What a method wrote is on the disk at its return."""

    async def offer(self, turns: Sequence[TurnRecord]) -> None:
        """Writes turns whose answers are about to go out, all or none."""
        ...

    async def delivered(self, ids: Collection[str]) -> None:
        """The answers went out whole; those withdrawn stay so."""
        ...

    async def withdraw(self, ids: Collection[str]) -> None:
        """The answers did not go out: the turns leave no trace."""
        ...

    async def chain(self, last: str, key: str) -> list[TurnRecord]:
        """A stored turn and all before it, the first one first; an offered one is delivered now.

        Raises:
            UnknownTurnError: no such turn of this key.
        """
        ...

    async def get(self, id: str, key: str) -> TurnRecord | None:
        """One turn of this key, stored or not."""
        ...

    async def delete(self, id: str, key: str) -> bool:
        """Forgets a turn for its client; one that later turns follow, they still remember."""
        ...

    async def summarised(self, id: str, summary: str, tokens: int) -> str:
        """Keeps the first summary of a turn; returns that one."""
        ...

    async def pending(self, limit: int) -> list[TurnRecord]:
        """Delivered turns that are not in the experience yet, and offered ones of an earlier life
        of the server, the oldest first."""
        ...

    async def logged(self, ids: Collection[str]) -> None:
        """These turns are in the experience."""
        ...

    async def sessions_of(self, user: str) -> list[str]:
        """The sessions of an end user, by pseudonym."""
        ...

    async def forget(self, sessions: Collection[str]) -> int:
        """Deletes sessions whole; how many turns they had."""
        ...

    async def expire(self, before: str) -> int:
        """Deletes sessions whose last turn is older than a time and in the experience; how many."""
        ...

    async def close(self) -> None:
        """Ends the connection."""
        ...


class UnknownTurnError(LookupError):
    """No such turn."""
