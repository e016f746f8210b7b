"""The live pool: where sessions leave candidates, and what their trials and uses came to.

A folder under the project's state. A session calls what its snapshot has and nothing that was
promoted after it began. Trials take turns, so that the count of earlier attempts is never stale.
"""

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from macaron.experience.times import now
from macaron.files import digest_value
from macaron.harness.pool.log import EventLog
from macaron.harness.pool.source import shape
from macaron.pool.candidate import Candidate, read_candidate, write_candidate
from macaron.pool.packed import Packed, load_packed
from macaron.pool.state import Entry, Event, State
from macaron.registry.lock import exclusive

LOG, LOCK, TRIALS = "log.jsonl", ".lock", ".trials.lock"


@dataclass(frozen=True)
class Origin:
    """Whose doing an event is."""

    session: str
    task: str = ""
    """Id of the task that the session works on, where it has one."""


@dataclass(frozen=True)
class Snapshot:
    """What one session can call, from its start to its end."""

    tools: Mapping[str, Candidate] = field(default_factory=dict)
    """By name."""

    @property
    def digest(self) -> str:
        """SHA-256 of name -> digest of the tool."""
        return digest_value({name: tool.digest for name, tool in self.tools.items()})

    @classmethod
    def of(cls, packed: Packed) -> "Snapshot":
        """What a pair itself carries: what its rollouts and its evaluation run with."""
        return cls(dict(packed.tools))


class LivePool:
    """The pool of one pair, as its ancestors' and its own sessions have made it.

    Args:
        folder: the project's; made at the first event.
        inherited: the pair's own `tools` folder; None where it has none.
        pairs: ids of the pair and of its ancestors, the pair first: what sessions of others
            promoted is not callable here.
    """

    def __init__(self, folder: Path, inherited: Path | None, pairs: Sequence[str]) -> None:
        self.folder, self.pair = folder, pairs[0]
        self.inherited = load_packed(inherited) if inherited else Packed({}, {}, {}, ())
        known = {event["pair"] for event in self.inherited.events}
        self.pairs = frozenset(pairs) | known
        self._inherited = {event["id"] for event in self.inherited.events}
        self.events: list[Event] = list(self.inherited.events)
        self._state = State(self.pairs).apply(self.events)
        self._log = EventLog(folder / LOG)
        self._mutex = threading.RLock()

    def state(self) -> State:
        """The standing of all candidates, now."""
        with self._mutex:
            fresh = [event for event in self._log.new() if event["id"] not in self._inherited]
            self.events += fresh
            return self._state.apply(fresh)

    def events_since_birth(self) -> Sequence[Event]:
        """What was added to this pool, without what was inherited."""
        with self._mutex:
            self.state()
            return [event for event in self.events if event["id"] not in self._inherited]

    def tool(self, digest: str) -> Candidate:
        """The candidate of that digest."""
        for tool in (*self.inherited.tools.values(), *self.inherited.demoted.values()):
            if tool.digest == digest:
                return tool
        return read_candidate(self.folder, digest)

    def snapshot(self) -> Snapshot:
        """What a session that begins now can call."""
        with self._mutex:
            tools = dict(sorted(self.state().tools.items()))
            return Snapshot({name: self.tool(digest) for name, digest in tools.items()})

    def save(self, tool: Candidate, origin: Origin) -> Entry:
        """Keeps a candidate; one that the session saved before is left as it is."""
        with self.writing() as state:
            entry = state.entries.get(tool.digest)
            if entry is None or origin.session not in entry.saved_by:
                facts = {"task": origin.task, "shape": shape(tool.source)}
                self.add("saved", tool, origin, **facts)
            return state.entries[tool.digest]

    @contextmanager
    def writing(self) -> Iterator[State]:
        """Holds the pool, so that what is added follows from the state that is read."""
        with self._mutex, exclusive(self.folder / LOCK):
            yield self.state()

    @contextmanager
    def trying(self) -> Iterator[State]:
        """Holds the turn at trials; saving goes on meanwhile."""
        with exclusive(self.folder / TRIALS):
            yield self.state()

    def add(self, kind: str, tool: Candidate, origin: Origin, **facts: Any) -> None:
        """Adds what happened to one tool. Call it within `writing`."""
        # An inherited tool's file is the pair's; what is said of it here must stay readable.
        write_candidate(self.folder, tool)
        self.add_event(kind, origin, digest=tool.digest, name=tool.name, **facts)

    def add_event(self, kind: str, origin: Origin, **facts: Any) -> None:
        """Adds an event. Call it within `writing`."""
        event = {
            "id": secrets.token_hex(8),
            "event": kind,
            "at": now(),
            "pair": self.pair,
            "session": origin.session,
            **facts,
        }
        self._log.append([event])
        self.state()
