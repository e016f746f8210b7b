"""A session's init: starts and ends its processes, watches them, and speaks with the host.

It runs no code of a model and believes nothing that the session's processes write.
"""

from __future__ import annotations

import json
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from macaron.harness.sandbox.inside import chain, command, frames, workspace
    from macaron.harness.sandbox.inside.process import Process

    Limits = dict[str, Any]
    Answer = dict[str, Any]
else:
    import chain
    import command
    import frames
    import workspace

KEPT = ("ok", "error")
"""Outcomes after which the cell's effects stay."""
SAID = (*KEPT, "memory", "output")
"""What a cell can say of itself; the rest is seen from outside."""
BROKEN = (chain.Ended, chain.Late, frames.Broken, OSError)
LOST = "an earlier cell broke the interpreter; the namespace is as at the last snapshot, or empty"
PIPE = "it wrote on the interpreter's own pipe"
NO_SHELL = "no shell on this host: it allows no namespaces with mounts"


class Aborted(Exception):  # noqa: N818
    """The host gives up the cell."""


class Keeper:
    """One session."""

    def __init__(self, host: int, limits: Limits) -> None:
        self._host, self._limits = host, limits
        self._chain = chain.Chain(limits, _hangup, host)
        self._files: workspace.Saved = {}
        self._pinned_files: workspace.Saved = {}

    def serve(self, level: list[str]) -> NoReturn:
        """Answers the host until it hangs up."""
        try:
            self._chain.begin()
        except BROKEN as error:
            self._say(b"X", {"error": f"no process could be locked up here: {error}"})
            _hangup()
        self._say(b"L", {"level": level})
        orders = {b"R": self._run, b"H": self._shell, b"S": self._pin, b"C": self._unpin}
        orders[b"U"] = self._restore
        while True:
            try:
                kind, body = frames.receive(self._host)
            except (frames.Broken, OSError):
                _hangup()
            # A late word about a cell that has ended meanwhile is nothing.
            if kind in orders:
                orders[kind](body)

    def _run(self, order: bytes) -> None:
        try:
            self._files = self._save()
            cell = self._chain.fork()
        except BROKEN:
            self._lose()
            self._say(b"D", _died("killed", LOST) | {"cpu_s": 0.0})
            return
        answer = self._attended(cell, order)
        if answer["outcome"] in KEPT and not cell.stop():
            answer = _died("killed", "")
        used = cell.used()
        if answer["outcome"] in KEPT:
            self._chain.adopt(cell)
        else:
            self._chain.drop(cell)
            self._put_back(self._files)
        self._say(b"D", answer | {"cpu_s": used})

    def _attended(self, cell: Process, order: bytes) -> Answer:
        """What became of the cell; the cell itself may still run."""
        try:
            return self._attend(cell, order)
        except chain.Late:
            return _died("timeout", "")
        except chain.Ended:
            late = cell.signal == signal.SIGXCPU or cell.cpu_s > self._limits["cpu_s"]
            why = f"ended by signal {cell.signal}" if cell.signal else "it ended its own process"
            return _died("timeout" if late else "killed", "" if late else why)
        except frames.Broken as broken:
            return _died("killed", str(broken))
        except Aborted:
            return _died("killed", "a tool failed on the host")

    def _attend(self, cell: Process, order: bytes) -> Answer:
        self._chain.post(b"R", order)
        deadline, calls = time.monotonic() + self._limits["wall_s"], 0
        while True:
            kind, body = self._chain.hear(cell, deadline, self._limits["cpu_s"])
            if kind == b"D":
                return _read(body)
            if kind != b"T":
                raise frames.Broken(f"{PIPE}: a message of no kind")
            calls += 1
            if calls > 2 * self._limits["calls"]:
                raise frames.Broken("it called tools without end")
            # A tool's time is the host's, not the cell's.
            started = time.monotonic()
            self._chain.post(b"A", self._answer(body, calls))
            deadline += time.monotonic() - started

    def _answer(self, call: bytes, calls: int) -> bytes:
        if calls > self._limits["calls"]:
            most = self._limits["calls"]
            return json.dumps({"fault": f"a cell may make {most} calls, and no more"}).encode()
        frames.send(self._host, b"T", call)
        while True:
            kind, body = frames.receive(self._host)
            if kind == b"A":
                return body
            if kind == b"H":
                self._shell(body)
            elif kind == b"K":
                raise Aborted

    def _shell(self, order: bytes) -> None:
        asked = json.loads(order)
        if not self._limits["files"]:
            answer = _died("error", NO_SHELL) | {"cpu_s": 0.0}
        else:
            answer = command.run(
                asked["command"], asked["chars"], self._limits, self._host, _hangup
            )
        self._say(b"H", answer)

    def _pin(self, _: bytes) -> None:
        """Keeps the state as it is now, until the next snapshot or a commit."""
        self._unpin(b"")
        self._chain.pinned = self._chain.current
        self._pinned_files = self._save()

    def _unpin(self, _: bytes) -> None:
        self._chain.unpin()
        self._pinned_files = {}

    def _restore(self, _: bytes) -> None:
        done = self._chain.pinned is not None
        if done:
            self._chain.go_back()
            self._put_back(self._pinned_files)
        self._say(b"U", {"done": done})

    def _lose(self) -> None:
        """Back to the last snapshot, or to an empty namespace."""
        files = self._pinned_files
        if not self._chain.go_back(lost=True):
            files = {}
            try:
                self._chain.begin()
            except BROKEN:
                _hangup()
        self._put_back(files)

    def _save(self) -> workspace.Saved:
        return workspace.save(self._files) if self._limits["files"] else {}

    def _put_back(self, files: workspace.Saved) -> None:
        if self._limits["files"]:
            workspace.restore(files)

    def _say(self, kind: bytes, value: Answer) -> None:
        try:
            frames.send(self._host, kind, json.dumps(value).encode())
        except OSError:
            _hangup()


def _read(body: bytes) -> Answer:
    """What a cell says of itself.

    Raises:
        frames.Broken: it is not that.
    """
    try:
        found = json.loads(body)
        answer = {key: found[key] for key in ("outcome", "printed", "cut", "error")}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise frames.Broken(f"{PIPE}: no result of a cell") from error
    if answer["outcome"] not in SAID or [type(v) for v in answer.values()] != [str, str, bool, str]:
        raise frames.Broken(f"{PIPE}: no result of a cell")
    return answer


def _died(outcome: str, error: str) -> Answer:
    return {"outcome": outcome, "printed": "", "cut": False, "error": error}


def _hangup() -> NoReturn:
    # Everything in its process namespace ends with it.
    os._exit(0)
