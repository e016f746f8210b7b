"""Child processes that cannot outlive their parent, however it dies."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies (Linux; elsewhere nothing)."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # The parent died between the two calls, so that no signal will come.
        os.kill(os.getpid(), signal.SIGKILL)
