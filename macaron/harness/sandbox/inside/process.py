"""One process of a session, as its keeper sees and steers it; its children are the keeper's."""

from __future__ import annotations

import os
import signal
import time


class Process:
    """One process of the session; a child of the keeper."""

    def __init__(self, pid: int) -> None:
        self.pid, self.handle = pid, os.pidfd_open(pid)
        self.ended, self.signal, self.cpu_s = False, 0, 0.0

    def used(self) -> float:
        """CPU seconds so far."""
        if not self.ended:
            try:
                self.cpu_s = time.clock_gettime((~self.pid << 3) | 2)
            except OSError:
                pass
        return self.cpu_s

    def stop(self) -> bool:
        """Stops it; False where it has ended."""
        self._signal(signal.SIGSTOP)
        return not self.ended and self._wait(os.WUNTRACED)

    def resume(self) -> None:
        """Lets it go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it."""
        self._signal(signal.SIGKILL)
        while not self.ended:
            self._wait(0)
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def _signal(self, number: int) -> None:
        if not self.ended:
            os.kill(self.pid, number)

    def _wait(self, options: int) -> bool:
        """Waits for a change of it; whether it stopped."""
        _, status, usage = os.wait4(self.pid, options)
        if os.WIFSTOPPED(status):
            return True
        self.ended, self.cpu_s = True, usage.ru_utime + usage.ru_stime
        self.signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return False


def kill_strays(spared: int) -> bool:
    """Ends every process of the namespace but its init and one; False where it can't tell."""
    # The next number: no process has a higher one, until they begin anew.
    last = os.fork()
    if last == 0:
        os._exit(0)
    os.waitpid(last, 0)
    for pid in range(2, last):
        try:
            if pid != spared:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
    return spared < last


def kill_all() -> None:
    """Ends every process of the namespace but its init, which this one is."""
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.wait()
    except (ProcessLookupError, ChildProcessError):
        pass
