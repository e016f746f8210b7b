"""The rows that are being read or sampled, and what a step does for them.

A row's tokens depend on its request alone. A fault ends the rows that it struck, and no others.
"""

import logging
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from macaron.engines.continuous.bank import Bank
from macaron.engines.continuous.counts import Counts
from macaron.engines.continuous.draw import draw
from macaron.engines.continuous.feed import decode_feed, prefill_feed
from macaron.engines.continuous.passes import Passes
from macaron.engines.continuous.places import Places
from macaron.engines.continuous.prefix import PrefixCache
from macaron.engines.continuous.row import Ranking, Row, Sampling, end
from macaron.engines.continuous.slots import Slots
from macaron.errors import ServiceError

log = logging.getLogger("macaron.engines")


class Progress:
    """Rows with a slot."""

    def __init__(
        self, passes: Passes, bank: Bank, slots: Slots, cache: PrefixCache, chunk: int
    ) -> None:
        """
        Args:
            chunk: prompt tokens that one pass reads.
        """
        self.passes, self.bank, self.slots, self.cache = passes, bank, slots, cache
        self.chunk = chunk
        self.places = Places(slots)
        self.reading: list[Row] = []
        """Those that are being read, in the order they came."""
        self.counts = Counts()

    def step(self) -> None:
        """One pass over prompts and one token of each response."""
        if self.reading:
            rows, tokens = self._next_read()
            self._guard(rows, lambda: self._read(rows, tokens))
        running = self.places.running
        if running:
            self._guard(running, lambda: self._sample(running))

    def enter(self, row: Row) -> None:
        """Gives a row a slot, with what the prefix cache has of it."""
        self.places.add(row)
        self.reading.append(row)
        row.filled = row.cached = self.cache.fill(self.slots, row.slot, row.blocks)
        self.counts.prompt_tokens += row.prompt
        self.counts.cached_tokens += row.cached

    def end(self, row: Row) -> None:
        """A row has ended."""
        if isinstance(row, Sampling) and row.tokens:
            self.cache.store(self.slots, row.slot, row.read(), row.adapter)
        self.release(row)
        end(row)
        self.counts.responses += isinstance(row, Sampling)

    def release(self, row: Row) -> None:
        """Frees a row's slot."""
        if row in self.reading:
            self.reading.remove(row)
        self.places.remove(row)

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
        self.release(row)
        row.sink.fail(ServiceError(what, where="local engine"))

    def _next_read(self) -> tuple[list[Row], int]:
        """Rows that fill a pass, the first come among them, and how many tokens of each."""
        chunk = self.chunk
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
        self.release(row)
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
                self.end(row)
