"""Runs model-written code in its own process; the host survives whatever the code does.

No reward is computed in here or in the sandbox: results are raw outputs, judged by the caller. A
fault of the sandbox itself is the outcome `invalid`, never a wrong answer.
"""

import atexit
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from macaron.errors import MacaronError
from macaron.files import storage_errors

WORKER = Path(__file__).parent / "inside" / "job_worker.py"
CHUNK = 32
"""Jobs sent at once: each exchange costs two changes of process, which a busy machine delays."""
START_S = 60.0
"""Longest wait for the worker itself, seconds."""

Outcome = Literal["ok", "error", "timeout", "memory", "killed", "output", "invalid"]


@dataclass(frozen=True)
class Limits:
    """What one job may use."""

    cpu_s: int = 1
    """Processor time, whole seconds."""
    wall_s: float = 10.0
    """Wall-clock time, seconds; far above `cpu_s`, so that a busy machine fails no honest job."""
    memory_bytes: int = 256 << 20
    """Address space."""
    output_chars: int = 10_000
    """Printed text, over all runs of the job."""
    result_bytes: int = 200_000
    """Everything a job gives back."""


@dataclass(frozen=True)
class Job:
    """Code and what to run it on."""

    code: str
    prelude: str = ""
    """Code of ours that runs first, with `DATA` set to the datum."""
    call: str = ""
    """A function to call on each datum; without it, the code runs anew for each datum."""
    data: tuple[Any, ...] = (None,)
    """JSON values; one output each."""


@dataclass(frozen=True)
class Result:
    """What became of a job."""

    outcome: Outcome
    outputs: tuple[Any, ...] = ()
    """For each datum what was printed, or what the function returned; up to the first fault."""
    error: str = ""
    """The exception's text, or why the result is invalid."""


class SandboxError(MacaronError):
    """The fork server ended or did not answer."""


class Sandbox:
    """A fork server and its restarts. Use as a context manager, or call `close`."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the fork server and all that it runs."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def level(self) -> tuple[str, ...]:
        """Names of the isolation that is active here, such as "seccomp" and "namespaces"."""
        with self._lock:
            return self._running().level

    def run(self, jobs: Sequence[Job]) -> list[Result]:
        """One result a job, in order; identical jobs run once."""
        # vars, not asdict, which would copy every database.
        lines = [json.dumps(vars(job)) for job in jobs]
        unique = list(dict.fromkeys(lines))
        results: dict[str, Result] = {}
        with self._lock:
            for start in range(0, len(unique), CHUNK):
                chunk = unique[start : start + CHUNK]
                results.update(zip(chunk, self._run(chunk), strict=True))
        return [results[line] for line in lines]

    def _running(self) -> "_Worker":
        if self._worker is None:
            self._worker = _Worker(self.limits)
        return self._worker

    def _run(self, chunk: list[str]) -> list[Result]:
        try:
            return self._running().ask(chunk)
        except SandboxError as error:
            self.close()
            if len(chunk) > 1:
                return [result for line in chunk for result in self._run([line])]
            return [self._run_again(chunk[0], str(error))]

    def _run_again(self, line: str, reason: str) -> Result:
        try:
            return self._running().ask([line])[0]
        except SandboxError:
            self.close()
            return Result("invalid", error=reason)


def _ended(why: str) -> SandboxError:
    return SandboxError(why, where="sandbox", mend="`macaron doctor` tells what is missing")


class _Worker:
    """One fork server process."""

    def __init__(self, limits: Limits) -> None:
        with storage_errors(Path(tempfile.gettempdir())):
            self._folder = Path(tempfile.mkdtemp(prefix="sandbox-"))
            # The worker gives up its rights and must still be able to enter.
            self._folder.chmod(0o755)
        self._job_s = limits.wall_s
        self._buffer = b""
        config = json.dumps({**asdict(limits), "host": os.getpid()})
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-B", "-s", "-P", str(WORKER), config],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            # The order of sets must be the same in training and in judging.
            env={"PYTHONHASHSEED": "0"},
        )
        try:
            self.level: tuple[str, ...] = tuple(json.loads(self._read(START_S)))
        except SandboxError:
            self.close()
            raise

    def ask(self, jobs: list[str]) -> list[Result]:
        """The worker's results for jobs given as JSON.

        Raises:
            SandboxError: it ended, answered nonsense or did not answer in time.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"[{','.join(jobs)}]\n".encode())
            self._process.stdin.flush()
        except OSError as error:
            raise _ended("its process is gone") from error
        try:
            found = json.loads(self._read(self._job_s * len(jobs) + START_S))
        except (ValueError, RecursionError) as error:
            raise _ended("its answer is not JSON") from error
        return [Result(r["outcome"], tuple(r["outputs"]), r["error"]) for r in found]

    def _read(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        pipe, deadline = self._process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise _ended(f"no answer in {seconds:.0f} s")
            chunk = os.read(pipe, 65536)
            if not chunk:
                raise _ended("its process is gone")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def shared_sandbox() -> Sandbox:
    """This process's own sandbox, started at first use; a forked process gets another."""
    return _sandbox_of(os.getpid())


@cache
def _sandbox_of(pid: int) -> Sandbox:
    sandbox = Sandbox()
    atexit.register(_close_own, sandbox, pid)
    return sandbox


def _close_own(sandbox: Sandbox, pid: int) -> None:
    # A forked process inherits the registration, and must not end its parent's worker.
    if os.getpid() == pid:
        sandbox.close()
