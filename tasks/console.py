"""The terminal: one progress line per step, with what it did, its seconds and the time left."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.status import Status

from macaron.files import write_json

STEPS = {
    "begin": 8.0,
    "collect": 12.0,
    "validate": 8.0,
    "expand": 0.1,
    "curate": 2.0,
    "train": 75.0,
    "evaluate": 25.0,
    "judge": 1.0,
    "version": 6.0,
    "promote": 1.0,
    "report": 3.0,
}
"""Steps in order, with the seconds to expect before a cycle was timed on this machine."""

console = Console(stderr=True, highlight=False, soft_wrap=True)


class Line:
    """The line of the running step."""

    def __init__(self, name: str, status: Status | None, left: float) -> None:
        self._name, self._status, self._left = name, status, left
        self._started = time.monotonic()
        self._first: tuple[float, float] | None = None
        """Seconds and share at the first sign of progress: a resumed step does not begin at 0."""
        self.summary = ""

    def update(self, detail: str, share: float | None = None) -> None:
        """Shows what the step is at; `share` of it is done, in [0, 1]."""
        if self._status is None:
            return
        spent = time.monotonic() - self._started
        left = self._left - spent
        if share:
            before, done = self._first = self._first or (spent, share)
            if share > done:
                left = max(left, (spent - before) / (share - done) * (1 - share))
        self._status.update(f"{self._name:<9} {detail}  [dim]about {clock(left)} left[/dim]")


class Progress:
    """The steps of one run, timed; the durations teach the next run's estimates."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._expected = dict(STEPS)
        self._file: Path | None = None

    def remember(self, file: Path) -> None:
        """Reads earlier durations from the file and keeps new ones in it."""
        self._file = file
        if file.exists():
            self._expected |= json.loads(file.read_text())

    @contextmanager
    def step(self, name: str) -> Iterator[Line]:
        """Shows a step while it runs, and one line when it ended well."""
        left = sum(s for n, s in self._expected.items() if n not in self.seconds)
        started = time.monotonic()
        status = Status("", console=console) if sys.stderr.isatty() else None
        line = Line(name, status, left)
        with status or _nothing():
            line.update("...")
            yield line
        self.seconds[name] = time.monotonic() - started
        self.say(name, f"{line.summary}  [dim]{self.seconds[name]:.1f} s[/dim]")
        if self._file:
            self._expected[name] = round(self.seconds[name], 2)
            write_json(self._file, self._expected)

    def say(self, name: str, text: str) -> None:
        """One line about a step."""
        console.print(f"[green]✓[/green] {name:<9} {text}")


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def clock(seconds: float) -> str:
    """A duration as m:ss."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


progress = Progress()
