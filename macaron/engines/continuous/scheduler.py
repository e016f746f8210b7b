"""What the engine's thread does in a step: admit rows, read prompts, sample a token of each row.

A row's tokens depend on its request alone. A fault ends the rows that it struck, and no others.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from macaron.engines.continuous.bank import Bank, Parts
from macaron.engines.continuous.counts import Counts
from macaron.engines.continuous.draw import draw
from macaron.engines.continuous.feed import decode_feed, prefill_feed
from macaron.engines.continuous.memory import give_back
from macaron.engines.continuous.passes import Passes
from macaron.engines.continuous.places import Places
from macaron.engines.continuous.prefix import PrefixCache
from macaron.engines.continuous.row import Ranking, Row, Sampling
from macaron.engines.continuous.slots import Slots
from macaron.errors import ConfigError, ServiceError

log = logging.getLogger("macaron.engines")


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
    """Rows from their requests to their ends. Of one thread."""

    def __init__(
        self,
        passes: Passes,
        bank: Bank,
        slots: Slots,
        cache: PrefixCache,
        limits: Limits,
        read: Callable[[Path], Parts],
    ) -> None:
        """
        Args:
            read: an adapter's tensors from its folder.
        """
        self.passes, self.bank, self.slots = passes, bank, slots
        self.cache, self.limits, self.prepare = cache, limits, read
        self.places = Places(slots)
        self.waiting: deque[Row] = deque()
        self.reading: list[Row] = []
        self.counts = Counts()
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
            self._release(self.places.rows[-1])

    def step(self) -> None:
        """One pass over prompts and one token of each response."""
        self._cancel()
        self._admit()
        if self.reading:
            rows, tokens = self._next_read()
            self._guard(rows, lambda: self._read(rows, tokens))
        running = self.places.running
        if running:
            self._guard(running, lambda: self._sample(running))
        self._leave()
        self._count()

    def _guard(self, rows: Sequence[Row], work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # Whatever it was, these rows cannot go on and the others can.
            log.exception("a forward pass of %d rows", len(rows))
            for row in rows:
                if row.slot >= 0:
                    self._fail(row, f"a forward pass failed: {type(error).__name__}: {error}")

    def _fail(self, row: Row, what: str) -> None:
        self.slots.wipe(row.slot)
        self._release(row)
        row.sink.fail(ServiceError(what, where="local engine"))

    def _release(self, row: Row) -> None:
        if row in self.reading:
            self.reading.remove(row)
        self.places.remove(row)

    def _cancel(self) -> None:
        for row in [r for r in (*self.waiting, *self.places.rows) if r.cancelled]:
            if row.slot < 0:
                self.waiting.remove(row)
                _end(row)
            else:
                self._end(row)

    def _admit(self) -> None:
        room = {
            Sampling: self.limits.rows - sum(isinstance(r, Sampling) for r in self.places.rows),
            Ranking: self.limits.rankings - sum(isinstance(r, Ranking) for r in self.places.rows),
        }
        soon = {name for row in self.reading for name in row.blocks} if self.cache.limit else set()
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
            self._enter(row)
        self.waiting = left

    def _enter(self, row: Row) -> None:
        self.places.add(row)
        self.reading.append(row)
        row.filled = row.cached = self.cache.fill(self.slots, row.slot, row.blocks)
        self.counts.prompt_tokens += row.prompt
        self.counts.cached_tokens += row.cached

    def _next_read(self) -> tuple[list[Row], int]:
        """Rows that fill a pass, the first come among them, and how many tokens of each."""
        chunk = self.limits.chunk
        first = self.reading[0]
        tokens = min(first.left, chunk)
        rows = [first]
        # Rows of about its length waste least on padding.
        for row in sorted(self.reading[1:], key=lambda r: abs(r.left - first.left)):
            wider = max(tokens, min(row.left, chunk))
            if wider * (len(rows) + 1) > chunk:
                break
            rows.append(row)
            tokens = wider
        # An adapter's rows side by side, so that they can be computed together.
        return sorted(rows, key=lambda r: r.adapter or ""), tokens

    def _read(self, rows: Sequence[Row], tokens: int) -> None:
        self.places.reserve(max(row.filled for row in rows) + tokens)
        feed = prefill_feed(rows, tokens, self.slots, self.bank)
        logits = self.passes.logits(feed)
        place = 0
        begun: list[tuple[Sampling, int]] = []
        firsts = [max(row.prompt - 1, row.filled) for row in rows]
        # All of them first: a row that ends has others moved, as far as they are filled.
        for row in rows:
            row.filled += min(tokens, row.left)
        for row, first in zip(rows, firsts, strict=True):
            count = max(row.filled - first, 0)
            if isinstance(row, Ranking):
                self._score(row, first, logits[place : place + count])
            elif isinstance(row, Sampling) and count:
                begun.append((row, place))
            place += count
        if begun:
            chosen = [row for row, _ in begun]
            self._extend(chosen, logits[[place for _, place in begun]], start=True)

    def _score(self, row: Ranking, first: int, logits: Tensor) -> None:
        logprobs = torch.log_softmax(logits.float(), -1)
        for place in range(len(logits)):
            for option, token in row.targets.get(first + place, ()):
                row.scores[option] += float(logprobs[place, token])
        if row.left:
            return
        if not all(map(math.isfinite, row.scores)):
            self._fail(row, "the model's logits are not numbers")
            return
        self.cache.store(self.slots, row.slot, row.ids[: row.prompt], row.adapter)
        self._release(row)
        row.sink.finish(row.scores)

    def _sample(self, rows: list[Sampling]) -> None:
        self.places.reserve(max(row.filled for row in rows) + 1)
        logits = self.passes.logits(decode_feed(rows, self.slots, self.bank))
        for row in rows:
            row.filled += 1
        self._extend(rows, logits, start=False)

    def _extend(self, rows: list[Sampling], logits: Tensor, start: bool) -> None:
        """Draws a token for each row."""
        for row, token, logprob in zip(rows, *draw(rows, logits), strict=True):
            if not math.isfinite(logprob):
                self._fail(row, "the model's logits are not numbers")
                continue
            row.tokens.append(token)
            row.logprobs.append(logprob)
            self.counts.sampled_tokens += 1
            row.sink.push([token], row.cached)
            if start:
                self.cache.store(self.slots, row.slot, row.ids, row.adapter)
                self.reading.remove(row)
                self.places.start(row)
            if row.reason:
                self._end(row)

    def _end(self, row: Row) -> None:
        if isinstance(row, Sampling) and row.tokens:
            self.cache.store(self.slots, row.slot, row.read(), row.adapter)
        self._release(row)
        _end(row)
        self.counts.responses += isinstance(row, Sampling)

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


def _end(row: Row) -> None:
    row.sink.finish(row.completion() if isinstance(row, Sampling) else [])
