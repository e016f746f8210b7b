"""One training as a real DeepSpeed launch in a subprocess, on whatever accelerators there are.

However it ends, and however this process ends, no process of the launch is left behind.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from macaron.errors import MacaronError, TrainingError
from macaron.mint.job import load_job
from macaron.mint.result import Result, load_results
from macaron.process import die_with_parent

OnEvent = Callable[[dict[str, Any]], None]
"""Gets each event of the training, as `macaron.mint.events` describes them."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "DO_NOT_TRACK": "1",
}
"""One thread a rank (another number gives other bits), no network, no telemetry."""


def command(job_path: Path, processes: int, port: int = 29500) -> list[str]:
    """The launch command; the same that `train` runs, for a person to run or read."""
    launcher = Path(sysconfig.get_path("scripts")) / "deepspeed"
    return [
        *(
            [str(launcher)]
            if launcher.exists()
            else [sys.executable, "-m", "deepspeed.launcher.runner"]
        ),
        f"--num_accelerators={processes}",
        f"--master_port={port}",
        "--no_local_rank",
        "--module",
        "macaron.mint.train",
        str(job_path),
    ]


def train(
    job_path: Path, on_event: OnEvent, log_path: Path, timeout: int | None = None
) -> dict[str, Result]:
    """Runs the job and returns each specialist's result, its files checked.

    Args:
        job_path: file of a `TrainingJob`; a job that has finished returns at once.
        on_event: called with each event as it happens, in this thread.
        log_path: gets everything that the launch prints.
        timeout: longest run, seconds; None: the job's.

    Raises:
        TrainingError: training failed, stopped, or took too long; the log's path is in it.
        MacaronError: the fault that the training process reported.
    """
    job = load_job(job_path)
    if (done := load_results(job)) is not None:
        return done
    line = command(job_path.resolve(), job.processes, _free_port())
    log_path.parent.mkdir(parents=True, exist_ok=True)
    limit = timeout or job.timeout
    with log_path.open("ab") as log, _running(line, log, limit) as (process, expired):
        log.write(f"$ {shlex.join(line)}\n".encode())
        log.flush()
        last = _follow(process, log, on_event)
    if last["event"] == "error":
        raise to_error(last, log_path)
    if expired.is_set():
        raise TrainingError(
            f"took longer than {limit} s and was stopped",
            where=str(log_path),
            mend="raise budgets.step_timeout",
        )
    results = load_results(job)
    if results is None:
        raise TrainingError("the launch ended before the training did", where=str(log_path))
    return results


def _follow(process: subprocess.Popen[bytes], log: IO[bytes], on_event: OnEvent) -> dict[str, Any]:
    """Hands on the events up to the one that ends them, and gives that: done, error or silence.

    Nothing that matters comes after done or error, and the launcher alone takes seconds to see
    that its ranks have ended.
    """
    assert process.stdout is not None
    for raw in process.stdout:
        log.write(raw)
        log.flush()
        event = _event(raw)
        if event is not None:
            on_event(event)
            if event["event"] in ("done", "error"):
                return event
    return {"event": "silence"}


def to_error(event: dict[str, Any], log_path: Path) -> MacaronError:
    """The fault that an error event carries, with the log's path."""
    kind = _kinds(MacaronError).get(event["kind"], TrainingError)
    mend = f"{event['mend']}; " if event["mend"] else ""
    return kind(event["what"], where=event["where"], mend=f"{mend}log: {log_path}")


def _kinds(kind: type[MacaronError]) -> dict[str, type[MacaronError]]:
    below = {name: k for sub in kind.__subclasses__() for name, k in _kinds(sub).items()}
    return {kind.__name__: kind, **below}


@contextmanager
def _running(
    line: list[str], log: IO[bytes], limit: int
) -> Iterator[tuple[subprocess.Popen[bytes], threading.Event]]:
    """The launch in a session of its own, killed at the limit and in any case at the end."""
    process = subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        env={"DS_ACCELERATOR": "cpu", **os.environ, **ENVIRONMENT},
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    expired = threading.Event()

    def stop() -> None:
        expired.set()
        _kill(process.pid)

    timer = threading.Timer(limit, stop)
    timer.start()
    try:
        yield process, expired
    finally:
        timer.cancel()
        _kill(process.pid)
        process.wait()


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _event(raw: bytes) -> dict[str, Any] | None:
    """The event in a line; None for what the launcher itself prints."""
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "event" in value else None


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
