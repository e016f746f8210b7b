"""What the engine's thread does: requests wait, are admitted as there is room, and go on together.

Requests are admitted in the order they came, and adapters leave when nobody needs them.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.engines.continuous.group import Parts
from macaron.engines.continuous.memory import give_back
from macaron.engines.continuous.progress import Progress
from macaron.engines.continuous.row import Ranking, Row, Sampling, end
from macaron.errors import ConfigError


@dataclass(frozen=True)
class Limits:
    """How much at once."""

    rows: int = 64
    """Responses that are read or sampled."""
    rankings: int = 32
    """Rankings beside them."""
    row_bytes: int = 2**30
    """What keys and values of rows may take; one row alone may take more."""
    chunk: int = 256
    """Prompt tokens that one pass reads while others wait for their next token."""


class Scheduler:
    """A `Worker` over rows that share passes. Of one thread."""

    def __init__(self, progress: Progress, limits: Limits, read: Callable[[Path], Parts]) -> None:
        """
        Args:
            read: an adapter's tensors from its folder.
        """
        self.progress, self.limits, self.prepare = progress, limits, read
        self.places, self.cache, self.bank = progress.places, progress.cache, progress.bank
        self.counts = progress.counts
        self.waiting: deque[Row] = deque()
        self._leaving: dict[str, list[Callable[[], None]]] = {}

    @property
    def idle(self) -> bool:
        """Whether a step would do nothing."""
        return not (self.waiting or self.places.rows or self._leaving)

    def add(self, row: Row) -> None:
        """Takes a request."""
        if row.adapter is not None and row.adapter not in self.bank.ranks:
            row.sink.fail(ConfigError(f"no adapter {row.adapter!r} is loaded"))
        else:
            self.waiting.append(row)

    def install(self, revision: str, prepared: Any) -> None:
        """Loads an adapter that `prepare` read; one that is loaded stays."""
        for done in self._leaving.pop(revision, []):
            done()
        if revision not in self.bank.ranks:
            self.bank.add(revision, prepared)
            give_back()

    def remove(self, revision: str, done: Callable[[], None]) -> None:
        """Forgets an adapter as soon as no row needs it, and then calls `done`."""
        self._leaving.setdefault(revision, []).append(done)

    def abandon(self, error: Exception) -> None:
        """Ends every row with a fault."""
        for row in [*self.waiting, *self.places.rows]:
            row.sink.fail(error)
        self.waiting.clear()
        while self.places.rows:
            self.progress.release(self.places.rows[-1])

    def step(self) -> None:
        """One pass over prompts and one token of each response."""
        self._cancel()
        self._admit()
        self.progress.step()
        self._leave()
        self._count()

    def _cancel(self) -> None:
        for row in [r for r in (*self.waiting, *self.places.rows) if r.cancelled]:
            if row.slot < 0:
                self.waiting.remove(row)
                end(row)
            else:
                self.progress.end(row)

    def _admit(self) -> None:
        room = {
            Sampling: self.limits.rows - sum(isinstance(r, Sampling) for r in self.places.rows),
            Ranking: self.limits.rankings - sum(isinstance(r, Ranking) for r in self.places.rows),
        }
        soon = (
            {name for row in self.progress.reading for name in row.blocks}
            if self.cache.limit
            else set()
        )
        left: deque[Row] = deque()
        full = False
        for row in self.waiting:
            # One that is too large for now is not overtaken, or it might wait for ever.
            full = full or not self.places.fits(row)
            # What another row is reading right now is worth a wait of a step.
            if full or room[type(row)] < 1 or self.cache.missing(row.blocks) in soon:
                left.append(row)
                continue
            room[type(row)] -= 1
            soon.update(row.blocks if self.cache.limit else ())
            self.progress.enter(row)
        self.waiting = left

    def _leave(self) -> None:
        if not self._leaving:
            return
        used = {row.adapter for row in (*self.waiting, *self.places.rows)}
        for revision in [r for r in self._leaving if r not in used]:
            if revision in self.bank.ranks:
                self.bank.remove(revision)
                self.cache.drop(revision)
                give_back()
            for done in self._leaving.pop(revision):
                done()

    def _count(self) -> None:
        self.counts.running, self.counts.waiting = len(self.places.rows), len(self.waiting)
        self.counts.cache_bytes, self.counts.adapters = self.cache.bytes, len(self.bank.ranks)
