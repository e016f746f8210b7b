"""Runs a flow of the project as a process of its own: the library never imports flows.

The flow dies with this process, however that dies; where it ends by itself, so does everything
that the flow started.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from macaron.errors import ConfigError
from macaron.process import die_with_parent

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_flow(root: Path, module: str, arguments: list[str], environment: Mapping[str, str]) -> int:
    """Runs `python -m module` in the project's root with this terminal, and waits.

    Returns:
        Its exit code; 128 + n where signal n ended it or was passed on to it.

    Raises:
        ConfigError: the project has no such flow.
    """
    if not (root / f"{module.replace('.', '/')}.py").exists():
        raise ConfigError(f"no flow {module}", where=str(root), mend="run inside a whole checkout")
    child = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=root,
        env=environment,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    try:
        with _guard(child), _forwarding(child) as received:
            code = child.wait()
    finally:
        _kill_group(child)
    if received:
        return 128 + received[0]
    return code if code >= 0 else 128 - code


@contextmanager
def _forwarding(child: "subprocess.Popen[bytes]") -> Iterator[list[int]]:
    """Passes the first signal on, so that the flow can put things away; the second one kills."""
    received: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if received:
            _kill_group(child)
        received.append(number)
        child.send_signal(number)

    # What is ignored from the start, under nohup or in a script's background, stays ignored.
    heard = [number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in heard}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _guard(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Kills the flow's whole group when this process dies, even by SIGKILL.

    The kernel tells only the flow of that; what the flow started, Prefect's server first, would
    live on.
    """
    waiting = f"read line; kill -KILL -{child.pid} 2>/dev/null"
    guard = subprocess.Popen(
        ["/bin/sh", "-c", waiting],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        guard.kill()
        guard.communicate()


def _kill_group(child: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
