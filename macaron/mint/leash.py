"""Keeps a launch whole: when the process that leads it dies, all of it dies.

DeepSpeed's launcher starts a second process, and that one the ranks. Killing the first leaves
the others running; each rank therefore watches it.
"""

import os
import signal
import sys
import threading


def follow_leader() -> None:
    """Kills this process's group as soon as the session's leader has died.

    Does nothing unless the leader started the whole session for this launch, as
    `macaron.mint.launch` does: in a terminal a job has a group of its own and its shell leads.
    Linux only.
    """
    if sys.platform != "linux":
        return
    leader = os.getsid(0)
    if leader in (os.getpid(), 0) or leader != os.getpgid(0):
        return
    try:
        handle = os.pidfd_open(leader)
    except ProcessLookupError:
        os.killpg(os.getpgid(0), signal.SIGKILL)
        return
    threading.Thread(target=_wait_and_kill, args=(handle,), daemon=True).start()


def _wait_and_kill(handle: int) -> None:
    import select

    # A pidfd becomes readable at the process's death, even where nobody reaps it.
    select.select([handle], [], [])
    os.killpg(os.getpgid(0), signal.SIGKILL)
