"""The sandbox's fork server: reads jobs from stdin, runs each in a locked-up child, answers.

Run as a script by `sandbox.py` with `python -I -S -B`; it imports nothing of this project. A job's
code meets no file, socket, process or variable of the host, and the server outlives what it does.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import gc
import itertools
import json
import math
import os
import platform
import re
import resource
import select
import signal
import string
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself would only make every child heavier
    from typing import Any, NoReturn

    Limits = dict[str, Any]

PRELOADED = (collections, functools, itertools, json, math, re, string)
"""What model-written code can import: nothing is left open from which to load more."""

OUTCOMES = ("ok", "error", "memory", "output")
"""What a job can say of itself; the rest is seen from outside."""

NOBODY = 65534
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
NEW_USER, NEW_NET, NEW_PID, NEW_IPC = 0x10000000, 0x40000000, 0x20000000, 0x08000000

# read write close fstat lseek mmap mprotect munmap rt_sigaction rt_sigprocmask rt_sigreturn brk
# mremap madvise getpid exit exit_group futex sigaltstack clock_gettime gettimeofday getrusage
# sched_yield getrandom gettid. None that sleeps: only work uses up a job's time.
SYSCALLS = {
    "x86_64": (
        0xC000003E,
        (0, 1, 3, 5, 8, 9, 10, 11, 13, 14, 15, 12, 25, 28, 39, 60, 231, 202, 131, 228, 96, 98, 24,
         318, 186),
    ),
    "aarch64": (
        0xC00000B7,
        (63, 64, 57, 80, 62, 222, 226, 215, 134, 135, 139, 214, 216, 233, 172, 93, 94, 98, 132,
         113, 169, 165, 124, 278, 178),
    ),
}  # fmt: skip

LIBC = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_uint16), ("filter", ctypes.POINTER(_Filter)))


def seccomp_program() -> _Program | None:
    """A BPF program that lets the listed system calls pass and refuses all others with EPERM."""
    if platform.machine() not in SYSCALLS:
        return None
    arch, allowed = SYSCALLS[platform.machine()]
    load, equal, give = 0x20, 0x15, 0x06
    lines = [(load, 0, 0, 4), (equal, 1, 0, arch), (give, 0, 0, 0x80000000), (load, 0, 0, 0)]
    for i, number in enumerate(allowed):
        lines.append((equal, len(allowed) - i, 0, number))
    lines += [(give, 0, 0, 0x00050000 | 1), (give, 0, 0, 0x7FFF0000)]
    array = (_Filter * len(lines))(*(_Filter(*line) for line in lines))
    return _Program(len(lines), ctypes.cast(array, ctypes.POINTER(_Filter)))


def shut_in(limits: Limits) -> list[str]:
    """Isolates the server as far as the host allows; returns the names of what is active."""
    active = ["rlimits"]
    if os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            active.append("nobody")
        except OSError:
            pass
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if LIBC.unshare(NEW_USER | NEW_NET | NEW_PID | NEW_IPC) == 0:
        active.append("namespaces")
        _become_init()
        try:
            os.chroot(".")
            os.chdir("/")
            active.append("chroot")
        except OSError:
            pass
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = seccomp_program()
    if program is not None and _seccomp_works(program):
        active.append("seccomp")
        limits["program"] = program
    return active


def _become_init() -> None:
    # A new process namespace begins with the next child; as its init, that child can't be
    # signalled by jobs, and whatever a job left running dies with it.
    child = os.fork()
    if child:
        os.close(0)
        os.close(1)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _seccomp_works(program: _Program) -> bool:
    child = os.fork()
    if child == 0:
        done = LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0)
        os._exit(0 if done == 0 and os.getpid() > 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def lock_up(limits: Limits) -> None:
    """The last thing a child does before it runs a job's code."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for kind, value in (
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 1),
    ):
        resource.setrlimit(kind, (value, value))
    if "program" in limits:
        done = LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.byref(limits["program"]), 0, 0)
        if done != 0:
            os._exit(1)


class Overflow(BaseException):
    """A job printed more than it may."""


class Capture:
    """Stands in for stdout: keeps text up to a limit."""

    def __init__(self, limit: int) -> None:
        self.parts: list[str] = []
        self.left, self.full = limit, False

    def write(self, text: str) -> int:
        self.left -= len(text)
        if self.left < 0:
            self.full = True
            raise Overflow
        self.parts.append(str(text))
        return len(text)

    def flush(self) -> None:
        pass


def plain(value: Any, depth: int = 0) -> Any:
    """The value, once it is made of JSON's own types and nothing that only looks like them."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list and depth < 20:
        return [plain(item, depth + 1) for item in value]
    if kind is dict and depth < 20 and all(type(key) is str for key in value):
        return {key: plain(item, depth + 1) for key, item in value.items()}
    raise TypeError(f"cannot return {kind.__name__}")


def run_code(job: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Outputs of the job's code on each datum: printed text, or results of the named function."""
    outcome, error = "ok", ""
    outputs: list[Any] = []
    capture = Capture(limits["output_chars"])
    sys.stdout = sys.stderr = capture
    try:
        space: dict[str, Any] = {}
        for datum in job["data"]:
            if not space or not job["call"]:
                space = {"__name__": "job", "DATA": datum}
                exec(compile(job["prelude"], "<prelude>", "exec"), space)
                exec(compile(job["code"], "<answer>", "exec"), space)
            if job["call"]:
                outputs.append(plain(space[job["call"]](datum)))
            else:
                outputs.append("".join(capture.parts))
                capture.parts = []
    except MemoryError:
        outcome = "memory"
    except Overflow:
        outcome = "output"
    except BaseException as fault:
        outcome, error = "error", f"{type(fault).__name__}: {fault}"[:200]
    if capture.full:
        outcome = "output"
    return {"outcome": outcome, "outputs": outputs, "error": error}


def child(job: dict[str, Any], limits: Limits, write_end: int) -> NoReturn:
    """Runs the job and writes its result; never returns."""
    try:
        os.dup2(write_end, 0)
        os.closerange(1, 64)
        lock_up(limits)
        result = json.dumps(run_code(job, limits)).encode()
        while result:
            result = result[os.write(0, result) :]
    finally:
        os._exit(0)


def collect(pid: int, read_end: int, limits: Limits) -> tuple[bytes, str, float]:
    """What the child wrote, what ended it if that was not its own end, and its CPU seconds."""
    chunks: list[bytes] = []
    size, ended = 0, ""
    deadline = time.monotonic() + limits["wall_s"]
    poller = select.poll()
    poller.register(read_end, select.POLLIN | select.POLLHUP)
    while not ended:
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            ended = "timeout"
        elif not (chunk := os.read(read_end, 65536)):
            break
        else:
            chunks.append(chunk)
            size += len(chunk)
            if size > limits["result_bytes"]:
                ended = "output"
    # Even after a tidy end: a child that closed its pipe may still be running.
    os.kill(pid, signal.SIGKILL)
    usage = os.wait4(pid, 0)[2]
    used = usage.ru_utime + usage.ru_stime
    return b"".join(chunks), ended, used


def read_result(written: bytes) -> dict[str, Any] | None:
    """The child's result, or None where it is not one; a job can write what it likes."""
    try:
        found = json.loads(written)
        outcome, outputs, error = found["outcome"], found["outputs"], found["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if outcome not in OUTCOMES or type(outputs) is not list or type(error) is not str:
        return None
    return {"outcome": outcome, "outputs": outputs, "error": error[:200]}


def run_job(job: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """One job's result, whatever the job does."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(job, limits, write_end)
    os.close(write_end)
    written, ended, used_s = collect(pid, read_end, limits)
    os.close(read_end)
    result = None if ended else read_result(written)
    if result is None:
        late = used_s > 0.9 * limits["cpu_s"]
        result = {"outcome": ended or ("timeout" if late else "killed"), "outputs": [], "error": ""}
    return result


def main() -> None:
    """Serves until stdin ends."""
    limits = json.loads(sys.argv[1])
    jobs, answers = sys.stdin.buffer, sys.stdout
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    active = shut_in(limits)
    # The first compilation of a process builds the parser's types: 1 ms that no child should pay.
    run_code({"code": "print(1)", "prelude": "", "call": "", "data": [None]}, limits)
    gc.disable()
    gc.freeze()
    print(json.dumps(active), file=answers, flush=True)
    for line in jobs:
        results = [run_job(job, limits) for job in json.loads(line)]
        print(json.dumps(results), file=answers, flush=True)


if __name__ == "__main__":
    main()
