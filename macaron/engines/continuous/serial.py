"""Requests for models whose rows cannot share passes: like ones together, each batch to its end.

For sliding windows, linear attention and experts. The tokens of a response come all at once.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path

from macaron.engines.continuous.counts import Counts
from macaron.engines.continuous.row import Ranking, Row, Sampling
from macaron.engines.local import LocalEngine
from macaron.errors import ConfigError, ServiceError


class Serial:
    """A `Worker` over a `LocalEngine`."""

    def __init__(self, local: LocalEngine) -> None:
        self.local = local
        self.waiting: deque[Row] = deque()
        self.counts = Counts()
        self._leaving: dict[str, list[Callable[[], None]]] = {}

    @property
    def idle(self) -> bool:
        """Whether a step would do nothing."""
        return not (self.waiting or self._leaving)

    def prepare(self, folder: Path) -> Path:
        """The engine reads the folder itself."""
        return folder

    def install(self, revision: str, prepared: Path) -> None:
        """As `Worker`."""
        for done in self._leaving.pop(revision, []):
            done()
        if revision not in self.local.adapters:
            self.local.load(revision, prepared)
        self.counts.adapters = len(self.local.adapters)

    def remove(self, revision: str, done: Callable[[], None]) -> None:
        """As `Worker`."""
        self._leaving.setdefault(revision, []).append(done)

    def add(self, row: Row) -> None:
        """As `Worker`."""
        if row.adapter is not None and row.adapter not in self.local.adapters:
            row.sink.fail(ConfigError(f"no adapter {row.adapter!r} is loaded"))
        else:
            self.waiting.append(row)

    def abandon(self, error: Exception) -> None:
        """As `Worker`."""
        for row in self.waiting:
            row.sink.fail(error)
        self.waiting.clear()

    def step(self) -> None:
        """Serves the first request and all that can go with it."""
        if self.waiting:
            rows = self._next()
            self.counts.running, self.counts.waiting = len(rows), len(self.waiting)
            try:
                self._serve(rows)
            except Exception as error:
                for row in rows:
                    row.sink.fail(ServiceError(f"sampling failed: {error}", where="local engine"))
        self.counts.running, self.counts.waiting = 0, len(self.waiting)
        self._leave()

    def _next(self) -> list[Row]:
        kind = _kind(self.waiting[0])
        rows = [r for r in self.waiting if _kind(r) == kind][: self.local.batch]
        if isinstance(rows[0], Ranking):
            rows = rows[:1]
        for row in rows:
            self.waiting.remove(row)
        return rows

    def _serve(self, rows: list[Row]) -> None:
        prompts = [row.ids[: row.prompt].tolist() for row in rows]
        self.counts.prompt_tokens += sum(map(len, prompts))
        first = rows[0]
        if isinstance(first, Ranking):
            [scores] = self.local.rank(prompts, first.options, first.adapter)
            first.sink.finish(scores)
        elif isinstance(first, Sampling):
            self._sample(prompts, [r for r in rows if isinstance(r, Sampling)])

    def _sample(self, prompts: list[list[int]], rows: list[Sampling]) -> None:
        going = [(p, row) for p, row in zip(prompts, rows, strict=True) if not row.cancelled]
        if going:
            found = self.local.sample(
                [p for p, _ in going],
                rows[0].adapter,
                rows[0].params,
                seeds=[row.params.seed for _, row in going],
            )
            for (_, row), [completion] in zip(going, found, strict=True):
                row.tokens, row.logprobs = completion.token_ids, completion.logprobs
                row.sink.push(row.tokens, 0)
        for row in rows:
            self.counts.sampled_tokens += len(row.tokens)
            self.counts.responses += 1
            row.sink.finish(row.completion())

    def _leave(self) -> None:
        used = {row.adapter for row in self.waiting}
        for revision in [r for r in self._leaving if r not in used]:
            if revision in self.local.adapters:
                self.local.delete(revision)
            for done in self._leaving.pop(revision):
                done()
        self.counts.adapters = len(self.local.adapters)


def _kind(row: Row) -> tuple[object, ...]:
    """What rows of one batch have in common."""
    if isinstance(row, Sampling):
        p = row.params
        return row.adapter, p.max_tokens, p.temperature, p.top_p, p.stop_ids
    return row.adapter, id(row)
