"""The deployed pairs: the champion for new sessions, and those that running sessions began on.

The champion changes by one assignment, after the new pair is loaded and checked; a turn keeps the
pair that it began with.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from macaron.engines.stream import StreamEngine
from macaron.errors import ConfigError, MacaronError
from macaron.mol.harness import Harness
from macaron.pair import Pair, adapter_path
from macaron.registry.pairs import PairStore
from macaron.serve.counts import Counts

log = logging.getLogger("macaron.serve")


@dataclass
class Placed:
    """A pair that can answer."""

    pair: Pair
    harness: Harness
    users: int = field(default=0)
    """Turns that are being answered with it."""


class Deployment:
    """Which pairs are loaded. Of one event loop."""

    def __init__(
        self,
        engine: StreamEngine,
        base: str,
        store: PairStore,
        champion: Callable[[], str],
        harness: Callable[[Pair, Path], Harness],
        counts: Counts,
        keep: int = 3,
    ) -> None:
        """
        Args:
            engine: has the base.
            base: its digest.
            store: the pairs on this disk.
            champion: id of the pair that new sessions should have; may raise MacaronError.
            harness: opens a pair's.
            counts: to add to.
            keep: the most pairs that stay loaded while no turn needs them.
        """
        self._engine, self._base, self._store = engine, base, store
        self._champion, self._harness, self._counts, self._keep = champion, harness, counts, keep
        self._placed: OrderedDict[str, Placed] = OrderedDict()
        self._lock = asyncio.Lock()
        self._current: Placed | None = None

    @property
    def current(self) -> Placed:
        """The champion's.

        Raises:
            ConfigError: no champion was loaded yet.
        """
        if self._current is None:
            raise ConfigError("no pair is loaded yet", where="server", mend="wait for its start")
        return self._current

    @property
    def loaded(self) -> list[str]:
        """Ids of the pairs that are loaded."""
        return list(self._placed)

    async def start(self) -> None:
        """Loads the champion.

        Raises:
            MacaronError: there is none, or it cannot be loaded.
        """
        name = await asyncio.to_thread(self._champion)
        self._current = await self.place(name)

    async def look(self) -> bool:
        """Takes up a new champion, if there is one; one that cannot be loaded changes nothing."""
        try:
            name = await asyncio.to_thread(self._champion)
            if name == self.current.pair.id:
                return False
            self._current = await self.place(name)
        except MacaronError as error:
            self._counts.swap_faults += 1
            log.error("the champion stays %s: %s", self.current.pair.id, error)
            return False
        self._counts.swaps += 1
        log.info("the champion is %s", name)
        await self._tidy()
        return True

    async def follow(self, every: float) -> None:
        """Looks again and again.

        Args:
            every: seconds between two looks.
        """
        while True:
            await asyncio.sleep(every)
            await self.look()

    async def place(self, name: str) -> Placed:
        """A pair, loaded where it is not.

        Raises:
            MacaronError: it is not on this disk, damaged, or of another base.
        """
        async with self._lock:
            if name not in self._placed:
                self._placed[name] = await self._load(name)
            self._placed.move_to_end(name)
            return self._placed[name]

    @contextmanager
    def using(self, placed: Placed) -> Iterator[None]:
        """Keeps a pair loaded."""
        placed.users += 1
        try:
            yield
        finally:
            placed.users -= 1

    async def _load(self, name: str) -> Placed:
        folder, pair, harness = await asyncio.to_thread(self._read, name)
        for specialist, revision in pair.adapters.items():
            await self._engine.load(revision, adapter_path(folder, specialist))
        return Placed(pair, harness)

    def _read(self, name: str) -> tuple[Path, Pair, Harness]:
        pair = self._store.get(name)
        folder = self._store.folder(name)
        if pair.base != self._base:
            raise ConfigError(
                f"pair {name} is of base {pair.base[:12]}, this server has {self._base[:12]}",
                where=str(folder),
                mend="start the server anew",
            )
        return folder, pair, self._harness(pair, folder)

    async def _tidy(self) -> None:
        """Unloads what nobody needs, the pair that was longest not asked for first."""
        async with self._lock:
            idle = [n for n, p in self._placed.items() if not p.users and p is not self._current]
            for name in idle[: max(0, len(self._placed) - self._keep)]:
                gone = self._placed.pop(name)
                needed = {r for p in self._placed.values() for r in p.pair.adapters.values()}
                for revision in set(gone.pair.adapters.values()) - needed:
                    await self._engine.unload(revision)
