"""A session's processes: its state now, the state before the running cell, and a snapshot.

Each is a stopped fork of the one before it, so that going back is killing the newer one. All run
code that is not trusted; only the running one can be heard, and only the keeper lets one fork.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from macaron.harness.sandbox.inside import frames, kernel, runner
    from macaron.harness.sandbox.inside.process import Process, kill_all, kill_strays

    Limits = dict[str, Any]
else:
    import frames
    import kernel
    import runner
    from process import Process, kill_all, kill_strays

RECEIVE, ANSWER = 0xC0502100, 0xC0182101
CONTINUE = 1
FORK_S, FORK_CPU_S = 20.0, 1.0
"""Longest wait for a process that only has to fork, seconds: on a busy machine."""
REFUSALS = 1000
"""Processes and threads that a cell may ask for in vain: each costs the keeper time."""


class Late(Exception):  # noqa: N818
    """The cell used up its time."""


class Ended(Exception):  # noqa: N818
    """The process ended by itself or was killed by the kernel."""


class Chain:
    """The processes and the two pipes that they share."""

    def __init__(self, limits: Limits, hangup: Callable[[], None], host: int) -> None:
        self._limits, self._host, self._hangup = limits, host, hangup
        self._inbox = frames.Inbox(limits["message_bytes"])
        self._out = bytearray()
        self._granted, self._refused, self._threads = False, 0, 0
        self.current: Process | None = None
        self.pinned: Process | None = None
        self._to, self._sent, self._from, self._gate = -1, -1, -1, -1

    def begin(self) -> None:
        """Starts a new, empty namespace."""
        self._end()
        self._sent, self._to = os.pipe()
        self._from, write = os.pipe()
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            runner.main(self._sent, write, theirs, self._limits)
        os.close(write)
        theirs.close()
        for handle in (self._to, self._from):
            os.set_blocking(handle, False)
        self.current = Process(pid)
        with ours:
            ours.settimeout(FORK_S)
            _, handles, _, _ = socket.recv_fds(ours, 1, 1)
        if not handles:
            raise Ended
        self._gate = handles[0]
        if not self.current.stop():
            raise Ended

    def fork(self) -> Process:
        """A running copy of the current process, which stays as it is.

        Raises:
            Ended, Late, frames.Broken: the current one is no longer of use.
        """
        assert self.current is not None
        self.current.resume()
        self._granted, self._refused, self._threads = True, 0, self._limits["threads"]
        self.post(b"F")
        kind, body = self.hear(
            self.current, time.monotonic() + FORK_S, self.current.used() + FORK_CPU_S
        )
        self._granted = False
        copy = Process(self._child(kind, body))
        if not self.current.stop():
            copy.kill()
            raise Ended
        return copy

    def adopt(self, cell: Process) -> None:
        """Makes the stopped cell the current state."""
        before, self.current = self.current, cell
        if before is not None and before is not self.pinned:
            before.kill()
        self.quiet()

    def drop(self, cell: Process) -> None:
        """Ends the cell; the state is again the one before it."""
        cell.kill()
        self.quiet()

    def quiet(self) -> None:
        """Forgets what was written and not yet read, on both pipes."""
        self._inbox.clear()
        self._out.clear()
        # Every other reader and writer is stopped.
        for handle in (self._from, self._sent):
            poller = select.poll()
            poller.register(handle, select.POLLIN)
            while dict(poller.poll(0)).get(handle, 0) & select.POLLIN:
                os.read(handle, 1 << 16)

    def unpin(self) -> None:
        """Gives up the snapshot."""
        if self.pinned is not None and self.pinned is not self.current:
            self.pinned.kill()
        self.pinned = None

    def go_back(self, *, lost: bool = False) -> bool:
        """Makes the snapshot the current state, and keeps it; False where there is none.

        Args:
            lost: the current process lied, so that there may be processes nobody knows.
        """
        if self.pinned is None:
            return False
        if self.current is not None and self.current is not self.pinned:
            self.current.kill()
        self.current = self.pinned
        if lost and os.getpid() == 1 and not kill_strays(self.pinned.pid):
            return False
        self.quiet()
        return True

    def _end(self) -> None:
        """Ends every process."""
        self.unpin()
        if self.current is not None:
            self.current.kill()
        self.current = None
        if os.getpid() == 1:
            kill_all()
        for handle in (self._to, self._sent, self._from, self._gate):
            if handle >= 0:
                os.close(handle)
        self._to, self._sent, self._from, self._gate = -1, -1, -1, -1
        self._inbox.clear()
        self._out.clear()

    def post(self, kind: bytes, body: bytes = b"") -> None:
        """Leaves a message for the running process; `hear` writes it as the pipe takes it."""
        self._out += frames.packed(kind, body)

    def hear(self, process: Process, deadline: float, cpu_s: float) -> tuple[bytes, bytes]:
        """The next message of the running process.

        Raises:
            Late: the deadline passed, or it used more CPU seconds than it may.
            Ended: it ended.
            frames.Broken: it wrote what is no message.
        """
        while True:
            left, spare = deadline - time.monotonic(), cpu_s - process.used()
            if left <= 0 or spare <= 0:
                raise Late
            if (message := self._inbox.next()) is not None:
                return message
            self._step(process, min(left, spare + 0.002))

    def _step(self, process: Process, seconds: float) -> None:
        poller = select.poll()
        for handle in (self._from, process.handle, self._gate, self._host):
            poller.register(handle, select.POLLIN)
        if self._out:
            poller.register(self._to, select.POLLOUT)
        ready = dict(poller.poll(seconds * 1000))
        if self._host in ready:
            self._hangup()
        if self._to in ready:
            self._write()
        if self._gate in ready:
            self._asked(ready[self._gate])
        if self._from in ready:
            if not (piece := os.read(self._from, 1 << 16)):
                raise frames.Broken("it closed its pipe")
            self._inbox.add(piece)
        elif process.handle in ready:
            # Only once the pipe is empty: what it wrote before it ended counts.
            process.kill()
            raise Ended

    def _write(self) -> None:
        try:
            del self._out[: os.write(self._to, self._out[: 1 << 16])]
        except BlockingIOError:
            pass

    def _asked(self, events: int) -> None:
        """Answers a process that wants to clone."""
        if not events & select.POLLIN:
            raise Ended
        question = bytearray(80)
        try:
            fcntl.ioctl(self._gate, RECEIVE, question)
            number, _, _, _, _, _, flags = struct.unpack_from("<QIIiIQQ", question)
            said = self._may(flags)
            self._refused += not said
            fields = (number, 0, 0, CONTINUE) if said else (number, 0, -errno.EPERM, 0)
            fcntl.ioctl(self._gate, ANSWER, bytearray(struct.pack("<QqiI", *fields)))
        except OSError:
            pass  # whoever asked is gone
        if self._refused > REFUSALS:
            raise frames.Broken("it asked for processes without end")

    def _may(self, flags: int) -> bool:
        if flags == kernel.FORK:
            granted, self._granted = self._granted, False
            return granted
        thread = flags & kernel.CLONE_THREAD and not flags & kernel.NEW_ALL
        if not thread or self._threads == 0:
            return False
        self._threads -= 1
        return True

    def _child(self, kind: bytes, body: bytes) -> int:
        """The process id that it says it forked, once that is true."""
        known = {p.pid for p in (self.current, self.pinned) if p is not None}
        try:
            pid = int(body) if kind == b"F" and len(body) < 12 else -1
            if pid <= 1 or pid in known:
                raise frames.Broken("no process of that number was forked")
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except (ValueError, ChildProcessError) as error:
            raise frames.Broken("no process of that number was forked") from error
        return pid
