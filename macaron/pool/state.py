"""What became of each candidate: a fold over events that are only ever added.

The same events in the same order give the same state, today and for an auditor in years. A
decision (promoted, demoted) stands in an event with the numbers that led to it, so that a later
change of the rules does not rewrite it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Event = Mapping[str, Any]
"""A JSON object: `id`, `event`, `at`, `pair`, `session`, of one candidate also `digest` and
`name`; and what its kind says in `State`'s methods."""

Status = Literal["candidate", "failed", "promoted", "replaced", "demoted"]


@dataclass
class Entry:
    """One candidate's standing."""

    digest: str
    name: str
    status: Status = "candidate"
    reason: str = ""
    """Why it failed or was demoted."""
    shape: str = ""
    """Digest of its code without comments and layout."""
    saved_by: list[str] = field(default_factory=list)
    """Sessions, the first one first."""
    pairs: set[str] = field(default_factory=set)
    """Pairs whose sessions saved it."""
    tried: int = 0
    """Times it was up for promotion."""
    retrials: int = 0
    """Re-trials since it was promoted."""
    failing_retrials: int = 0
    calls: int = 0
    """Uses since its last trial."""
    raised: int = 0
    """Those of them that raised."""
    streak: int = 0
    """Sessions in a row in which every use raised."""
    faults: dict[str, int] = field(default_factory=dict)
    """Kinds of fault in these sessions."""
    events: list[Event] = field(default_factory=list)


class State:
    """The standing of all candidates.

    Args:
        pairs: ids of the pair whose pool this is and of its ancestors: only a promotion under one
            of these counts. None: any does.
    """

    def __init__(self, pairs: Iterable[str] | None = None) -> None:
        self._pairs = None if pairs is None else frozenset(pairs)
        self._seen: set[str] = set()
        self.entries: dict[str, Entry] = {}
        """By digest, in the order of saving."""
        self.tools: dict[str, str] = {}
        """Name -> digest of what can be called."""

    def apply(self, events: Iterable[Event]) -> "State":
        """Takes events, the oldest first; one that was taken before changes nothing."""
        for event in events:
            if event["id"] not in self._seen:
                self._seen.add(event["id"])
                getattr(self, f"_{event['event']}")(event)
        return self

    def of_name(self, name: str) -> list[Entry]:
        """The candidates of that name, the oldest first."""
        return [entry for entry in self.entries.values() if entry.name == name]

    def failed(self, name: str) -> int:
        """Attempts at the name that failed their trials."""
        return sum(
            event["event"] == "tried" and not event["promoted"]
            for entry in self.of_name(name)
            for event in entry.events
        )

    def demoted(self) -> dict[str, Entry]:
        """By digest."""
        return {d: entry for d, entry in self.entries.items() if entry.status == "demoted"}

    def _saved(self, event: Event) -> None:
        """`task` that it was written for, `shape`."""
        entry = self._entry(event)
        entry.shape = event["shape"]
        entry.saved_by.append(event["session"])
        entry.pairs.add(event["pair"])

    def _tried(self, event: Event) -> None:
        """`seed`, `trials`, `needed`, `passed`, `faults`, `promoted`, and `reason` where not."""
        entry = self._entry(event)
        entry.tried += 1
        if event["promoted"]:
            if self._pairs is None or event["pair"] in self._pairs:
                self._promote(entry)
        elif entry.status == "promoted":
            # Tried by a pair that knew nothing of our promotion.
            entry.failing_retrials += 1
        elif entry.status != "demoted":
            entry.status, entry.reason = "failed", event["reason"]

    def _promote(self, entry: Entry) -> None:
        if entry.status == "demoted":
            return
        before = self.tools.get(entry.name, entry.digest)
        if before != entry.digest:
            self.entries[before].status = "replaced"
        entry.status, entry.reason = "promoted", ""
        entry.retrials = entry.failing_retrials = 0
        self._fresh(entry)
        self.tools[entry.name] = entry.digest

    def _retried(self, event: Event) -> None:
        """`seed`, `trials`, `needed`, `passed`, `faults`."""
        entry = self._entry(event)
        entry.retrials += 1
        entry.failing_retrials += event["passed"] < event["needed"]
        entry.calls = entry.raised = 0

    def _used(self, event: Event) -> None:
        """`tools`: digest -> `calls`, `raised`, `faults` by kind, of one session."""
        for digest, use in event["tools"].items():
            entry = self.entries.get(digest)
            if entry is None:
                continue
            entry.events.append(event)
            entry.calls += use["calls"]
            entry.raised += use["raised"]
            if use["raised"] < use["calls"]:
                entry.streak, entry.faults = 0, {}
                continue
            entry.streak += 1
            for kind, count in use["faults"].items():
                entry.faults[kind] = entry.faults.get(kind, 0) + count

    def _demoted(self, event: Event) -> None:
        """`reason`."""
        entry = self._entry(event)
        entry.status, entry.reason = "demoted", event["reason"]
        if self.tools.get(entry.name) == entry.digest:
            del self.tools[entry.name]

    def _entry(self, event: Event) -> Entry:
        # Another pair's tool may have been saved on another machine: its demotion still counts.
        digest = event["digest"]
        entry = self.entries.setdefault(digest, Entry(digest, event["name"]))
        entry.events.append(event)
        return entry

    @staticmethod
    def _fresh(entry: Entry) -> None:
        entry.calls = entry.raised = entry.streak = 0
        entry.faults = {}
