"""A shell command of a session: other people's programs, in a process namespace of their own.

They see the session's files and the system's programs; when the command ends, all that it started
ends with it.
"""

from __future__ import annotations

import codecs
import os
import resource
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from macaron.harness.sandbox.inside import cells, filters, kernel, landlock, private_root, workspace

    Limits = dict[str, Any]
    Answer = dict[str, Any]
else:
    import cells
    import filters
    import kernel
    import landlock
    import private_root
    import workspace

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
PROCESSES, FILES = 16, 64
"""What a pipeline of ordinary programs needs, beside what the session may have."""


def run(command: str, chars: int, limits: Limits, host: int, hangup: Callable[[], None]) -> Answer:
    """What became of the command: outcome, printed, cut, error, cpu_s."""
    read, write = os.pipe()
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = kernel.clone(kernel.NEW_PID | signal.SIGCHLD)
    if pid == 0:
        _init(command, write, limits)
    os.close(write)
    capture = cells.Capture(chars, limits["flood_chars"])
    outcome = _listen(read, capture, started + limits["wall_s"], host, hangup)
    os.close(read)
    if outcome:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    code = os.waitstatus_to_exitcode(status)
    if not outcome:
        outcome = "ok" if code == 0 else "error"
    ended = "" if code == 0 or outcome != "error" else _reason(code)
    return {
        "outcome": outcome,
        "printed": capture.text(),
        "cut": capture.size > capture.keep,
        "error": ended,
        "cpu_s": used,
    }


def _reason(code: int) -> str:
    # The shell's own way to say that a signal ended its command.
    return f"ended by signal {code - 128}" if code > 128 else f"exit status {code}"


def _listen(
    read: int, capture: cells.Capture, deadline: float, host: int, hangup: Callable[[], None]
) -> str:
    """Reads until the command's end; why it must be ended, or nothing."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    poller = select.poll()
    poller.register(read, select.POLLIN)
    poller.register(host, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        ready = dict(poller.poll(max(left, 0) * 1000))
        if host in ready:
            hangup()
        if read not in ready:
            return "timeout"
        piece = os.read(read, 1 << 16)
        try:
            capture.write(decoder.decode(piece, final=not piece))
        except cells.Overflow:
            return "output"
        if not piece:
            return ""


def _init(command: str, write: int, limits: Limits) -> NoReturn:
    """The command's init: all processes of its namespace die when it ends."""
    try:
        kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
        _descriptors(write)
        pid = os.fork()
        if pid == 0:
            _become(command, limits)
        os.closerange(0, 3)
        status = 0
        found = -1
        while found != pid:
            found, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    finally:
        os._exit(125)


def _descriptors(write: int) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(write, 1)
    os.dup2(write, 2)
    os.dup2(null, 0)
    os.closerange(3, 1 << 16)


def _become(command: str, limits: Limits) -> NoReturn:
    try:
        os.nice(5)
        os.setsid()
        os.chdir(workspace.PLACE)
        for kind, value in (
            (resource.RLIMIT_CPU, limits["cpu_s"]),
            (resource.RLIMIT_AS, limits["memory_bytes"]),
            (resource.RLIMIT_FSIZE, limits["file_bytes"]),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, FILES),
            (resource.RLIMIT_NPROC, PROCESSES + limits["threads"]),
        ):
            resource.setrlimit(kind, (value, value))
        kernel.drop_capabilities()
        if limits["landlock"]:
            landlock.confine(_rights())
        program = filters.shell_filter()
        assert program is not None
        filters.install(program)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execve("/bin/sh", ["sh", "-c", command], ENVIRONMENT)
    finally:
        os._exit(126)


def _rights() -> dict[str, int]:
    rights = dict.fromkeys((*private_root.SYSTEM, *private_root.PARTS), landlock.RUN)
    rights |= dict.fromkeys(private_root.DEVICES, landlock.USE)
    return rights | {workspace.PLACE: landlock.OWN}
