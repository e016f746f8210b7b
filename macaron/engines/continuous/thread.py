"""The engine's own thread: commands in, steps while there is work, results out to the loop.

The model and all state of rows belong to this thread; what it gives is carried over in one call a
step, in order.
"""

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from macaron.engines.continuous.counts import Counts
from macaron.engines.continuous.row import Row
from macaron.errors import ServiceError

log = logging.getLogger("macaron.engines")

Event = tuple[Callable[..., None], tuple[Any, ...]]


class Worker(Protocol):
    """What the thread drives."""

    counts: Counts

    @property
    def idle(self) -> bool:
        """Whether a step would do nothing."""
        ...

    def prepare(self, folder: Path) -> Any:
        """Reads an adapter; from any thread."""
        ...

    def install(self, revision: str, prepared: Any) -> None:
        """Loads what `prepare` read."""
        ...

    def remove(self, revision: str, done: Callable[[], None]) -> None:
        """Forgets an adapter once no row needs it, then calls `done`."""
        ...

    def add(self, row: Row) -> None:
        """Takes a request."""
        ...

    def abandon(self, error: Exception) -> None:
        """Ends every row with a fault."""
        ...

    def step(self) -> None:
        """Does some work."""
        ...


class EngineThread:
    """Runs a worker for one event loop."""

    def __init__(self, worker: Worker, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        """
        Args:
            threads: of torch.
        """
        self.worker, self._loop, self._threads = worker, loop, threads
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._events: list[Event] = []
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="macaron-engine", daemon=True)
        self._thread.start()

    def put(self, command: Callable[[], None]) -> None:
        """Has the thread call it before its next step."""
        self._inbox.put(command)

    def post(self, call: Callable[..., None], *args: Any) -> None:
        """Has the loop call it after this step; from the engine's thread only."""
        self._events.append((call, args))

    def end(self) -> None:
        """Fails what runs and ends the thread; waits for it."""
        self.put(self._stop)
        self._thread.join()

    def _stop(self) -> None:
        self._ending = True
        self.worker.abandon(ServiceError("the engine was closed", where="local engine"))

    def _run(self) -> None:
        torch.set_num_threads(self._threads)
        with torch.inference_mode():
            while not self._ending:
                self._turn()
        self._flush()

    def _turn(self) -> None:
        try:
            self._take()
            if not (self._ending or self.worker.idle):
                self.worker.step()
        except Exception as error:
            log.exception("the engine's thread")
            self.worker.abandon(ServiceError(f"the engine failed: {error}", where="local engine"))
        self._flush()

    def _take(self) -> None:
        """Calls all commands that have come; waits for one where there is nothing else to do."""
        wait = self.worker.idle
        with contextlib.suppress(queue.Empty):
            while True:
                self._inbox.get(block=wait)()
                wait = False

    def _flush(self) -> None:
        events, self._events = self._events, []
        if events:
            # A loop that is closed has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_call, events)


def _call(events: list[Event]) -> None:
    for call, args in events:
        call(*args)
