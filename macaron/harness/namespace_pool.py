"""Warm namespaces: sessions that were begun before somebody asked.

A namespace is used by one session and then ended: nothing of it reaches the next.
"""

import threading
from collections import deque

from macaron.harness.namespace import Namespace, WorkspaceLimits
from macaron.harness.namespace_server import NamespaceServer


class NamespacePool:
    """A few namespaces that are ready. Use as a context manager, or call `close`.

    Args:
        size: how many wait; more can be had at once, each begun when it is asked for.
        limits: of every session.
        server: another than this process's own.

    Raises:
        ConfigError, SandboxError: as `Namespace` does.
    """

    def __init__(
        self,
        size: int = 4,
        limits: WorkspaceLimits | None = None,
        *,
        server: NamespaceServer | None = None,
    ) -> None:
        self._size, self._limits, self._server = size, limits, server
        self._lock = threading.Lock()
        self._waiting = deque(self._begin() for _ in range(size))

    def __enter__(self) -> "NamespacePool":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._waiting)

    def acquire(self, seed: int = 0) -> Namespace:
        """A namespace that nobody used; another is begun in its place.

        Args:
            seed: seeds `random` in the session.
        """
        with self._lock:
            found = self._waiting.popleft() if self._waiting else self._begin()
            while len(self._waiting) < self._size:
                self._waiting.append(self._begin())
        found.seed = seed
        return found

    def release(self, namespace: Namespace) -> None:
        """Ends a namespace that was acquired."""
        namespace.close()

    def close(self) -> None:
        """Ends those that wait."""
        with self._lock:
            while self._waiting:
                self._waiting.pop().close()

    def _begin(self) -> Namespace:
        return Namespace(self._limits, server=self._server)
