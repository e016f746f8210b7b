"""The fork server of jobs: reads them from stdin, runs each in a locked-up child, answers.

Run as a script by `jobs.py`. A job's code meets no file, socket, process or variable of the host,
and the server outlives what it does.
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import json
import math
import os
import re
import resource
import select
import signal
import string
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself would only make every child heavier
    from typing import Any, NoReturn

    from macaron.harness.sandbox.inside import filters, kernel, landlock

    Limits = dict[str, Any]
else:
    import filters
    import kernel
    import landlock

PRELOADED = (collections, functools, itertools, json, math, re, string)
"""What model-written code can import: nothing is left open from which to load more."""

OUTCOMES = ("ok", "error", "memory", "output")
"""What a job can say of itself; the rest is seen from outside."""

NOBODY = 65534
SPACES = kernel.NEW_USER | kernel.NEW_NET | kernel.NEW_PID | kernel.NEW_IPC


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
    try:
        kernel.unshare(SPACES)
        active.append("namespaces")
    except OSError:
        pass
    # As init of the new process namespace the server can't be signalled by jobs, and whatever a
    # job left running dies with it.
    _behind_a_guard(limits["host"])
    if "namespaces" in active:
        try:
            os.chroot(".")
            os.chdir("/")
            active.append("private-root")
        except OSError:
            pass
    kernel.prctl(kernel.NO_NEW_PRIVS, 1)
    if landlock.confine({}):
        active.append("landlock")
    if filters.works(filters.job_filter()):
        active.append("seccomp")
        limits["program"] = filters.job_filter()
    return active


def _behind_a_guard(host: int) -> None:
    """Goes on in a child, while this process waits until that or the host ends.

    PDEATHSIG alone will not do for the host: it would come when the thread that started this
    process ends.
    """
    watched = os.pidfd_open(host)
    child = os.fork()
    if child == 0:
        kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
        os.close(watched)
        return
    os.close(0)
    os.close(1)
    poller = select.poll()
    poller.register(watched, select.POLLIN)
    poller.register(os.pidfd_open(child), select.POLLIN)
    poller.poll()
    os._exit(0)


def lock_up(limits: Limits) -> None:
    """The last thing a child does before it runs a job's code."""
    kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
    # SIGXCPU first, which tells a timeout from other ends; code that ignores it is killed.
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu_s"], limits["cpu_s"] + 1))
    for kind, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 1),
    ):
        resource.setrlimit(kind, (value, value))
    if "program" in limits:
        filters.install(limits["program"])


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
                exec(compile(job["prelude"], "<prelude>", "exec", dont_inherit=True), space)
                exec(compile(job["code"], "<answer>", "exec", dont_inherit=True), space)
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


def collect(pid: int, read_end: int, limits: Limits) -> tuple[bytes, str, bool]:
    """What the child wrote, what of ours ended it, and whether it used up its processor time."""
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
    _, status, usage = os.wait4(pid, 0)
    # The kernel's limit counts ticks, which on a busy machine are not what was used.
    used = usage.ru_utime + usage.ru_stime
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    late = number == signal.SIGXCPU or (number == signal.SIGKILL and used > 0.5 * limits["cpu_s"])
    return b"".join(chunks), ended, late


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
    written, ended, late = collect(pid, read_end, limits)
    os.close(read_end)
    result = None if ended else read_result(written)
    if result is None:
        outcome = ended or ("timeout" if late else "killed")
        result = {"outcome": outcome, "outputs": [], "error": ""}
    return result


def main() -> None:
    """Serves until stdin ends."""
    limits = json.loads(sys.argv[1])
    jobs, answers = sys.stdin.buffer, sys.stdout
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() != limits["host"]:
        return
    active = shut_in(limits)
    os.environ.clear()
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
