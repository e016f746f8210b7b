"""Live sessions: those that can go on at once, by the turn that they ended with.

A session is in here exactly once or in use; whoever takes it has it alone. One that is not here is
rebuilt from the timeline.
"""

from collections import OrderedDict

from macaron.harness.session import Session


class LiveSessions:
    """The sessions that were last used."""

    def __init__(self, most: int) -> None:
        """
        Args:
            most: sessions to keep.
        """
        self._most = most
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def take(self, turn: str, pair: str) -> Session | None:
        """The session that ended with a turn, under this pair; nobody else gets it."""
        return self._sessions.pop((turn, pair), None)

    def keep(self, turn: str, pair: str, session: Session) -> list[Session]:
        """Keeps a session ready; those that it displaces, to be closed."""
        displaced = self._sessions.pop((turn, pair), None)
        self._sessions[turn, pair] = session
        gone = [displaced] if displaced is not None else []
        while len(self._sessions) > self._most:
            gone.append(self._sessions.popitem(last=False)[1])
        return gone

    def clear(self) -> list[Session]:
        """All of them, to be closed."""
        every = list(self._sessions.values())
        self._sessions.clear()
        return every
