"""The LoRAs of one upstream server: named by their content, so that no name has two meanings.

A name that an upstream has loaded is therefore always the adapter that is meant, whoever loaded
it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from macaron.engines.adapters import WEIGHTS
from macaron.engines.upstream.dialect import Ask, Dialect
from macaron.engines.upstream.wire import Refusal
from macaron.errors import ConfigError, DigestError, ServiceError
from macaron.files import digest_file

CONFIG = "adapter_config.json"

POLL = 0.05
"""Seconds between looks at whether an adapter that is to go is idle."""

Post = Callable[[Ask], Awaitable[object]]


class UpstreamAdapters:
    """Which revisions are loaded, and how many requests use each.

    Args:
        post: asks the server.
        where: its URL, for messages.
    """

    def __init__(self, dialect: Dialect, post: Post, where: str) -> None:
        self._dialect, self._post, self._where = dialect, post, where
        self._folders: dict[str, Path] = {}
        self._names: dict[str, str] = {}
        self._leaving: set[str] = set()
        self._uses: Counter[str] = Counter()
        self._lock = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._names)

    def name(self, revision: str | None) -> str | None:
        """What the server knows a revision by; None for the bare base.

        Raises:
            ConfigError: it is not loaded.
        """
        if revision is None:
            return None
        if revision not in self._names or revision in self._leaving:
            raise ConfigError(f"no adapter {revision!r} is loaded", where=self._where)
        return self._names[revision]

    @contextmanager
    def used(self, revision: str | None) -> Iterator[None]:
        """Keeps a revision loaded for the block."""
        if revision is None:
            yield
            return
        self._uses[revision] += 1
        try:
            yield
        finally:
            self._uses[revision] -= 1

    async def load(self, revision: str, folder: Path) -> None:
        """Loads a revision; once loaded, does nothing.

        Raises:
            DigestError: the server cannot use it.
            ServiceError: the server loads no adapters while it runs.
        """
        async with self._lock:
            if revision not in self._names:
                name = await asyncio.to_thread(name_of, revision, folder)
                await self._load(name, folder)
                self._names[revision], self._folders[revision] = name, folder

    async def again(self, revision: str) -> None:
        """Loads a revision that the server has lost, as by a restart."""
        async with self._lock:
            if revision in self._names:
                await self._load(self._names[revision], self._folders[revision])

    async def unload(self, revision: str) -> None:
        """Forgets a revision once no request uses it."""
        async with self._lock:
            if revision not in self._names:
                return
            self._leaving.add(revision)
            try:
                while self._uses[revision]:
                    await asyncio.sleep(POLL)
                await self._unload(self._names[revision])
                del self._names[revision], self._folders[revision]
            finally:
                self._leaving.discard(revision)

    async def _load(self, name: str, folder: Path) -> None:
        try:
            await self._post(self._dialect.loading(name, str(folder.resolve())))
        except Refusal as refusal:
            if self._dialect.already(refusal, name):
                return
            if refusal.status == 404 and "adapter" not in refusal.message.lower():
                raise ServiceError(
                    f"{self._dialect.name} loads no adapters while it runs",
                    where=self._where,
                    mend="see the options in `docs/serving.md`",
                ) from refusal
            raise DigestError(
                f"{self._dialect.name} cannot use the adapter: {refusal.message}",
                where=str(folder),
                mend="it must see this folder under the same path, and allow the adapter's rank",
            ) from refusal

    async def _unload(self, name: str) -> None:
        try:
            await self._post(self._dialect.unloading(name))
        except Refusal as refusal:
            if not self._dialect.unknown(refusal):
                raise ServiceError(
                    f"cannot unload {name}: {refusal.message}", where=self._where
                ) from refusal


def name_of(revision: str, folder: Path) -> str:
    """The revision's name upstream, with a digest of what it is.

    Raises:
        DigestError: the folder holds no adapter.
    """
    try:
        weights, config = digest_file(folder / WEIGHTS), digest_file(folder / CONFIG)
    except OSError as error:
        raise DigestError("holds no adapter", where=str(folder)) from error
    return f"macaron-{revision[:16]}-{weights[:16]}-{config[:8]}"
