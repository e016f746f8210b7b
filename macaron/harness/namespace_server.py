"""The host's side of the namespaces' server: one process that forks a session in milliseconds.

A session is spoken with over a socket of its own; when the host ends, all of them do.
"""

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from macaron.files import storage_errors
from macaron.harness.sandbox.jobs import SandboxError

ZYGOTE = Path(__file__).parent / "sandbox" / "inside" / "zygote.py"
START_S = 60.0
"""Longest wait for the server itself, seconds: on a busy machine."""


class NamespaceServer:
    """The server and its restarts; safe to use from several threads.

    Args:
        without: names of isolation to do without, to see how the rest holds.
    """

    def __init__(self, without: Sequence[str] = ()) -> None:
        self._without = tuple(without)
        self._lock = threading.Lock()
        self._process: _Process | None = None

    @property
    def level(self) -> tuple[str, ...]:
        """Names of the isolation that every session has."""
        with self._lock:
            return self._running().level

    @property
    def pid(self) -> int:
        """The server's process."""
        with self._lock:
            return self._running().pid

    def open(self, limits: Mapping[str, Any]) -> socket.socket:
        """Begins a session; the socket to its keeper, which has yet to say that it is ready.

        Raises:
            SandboxError: the server cannot be started, or this host lacks what a session needs.
        """
        with self._lock:
            try:
                return self._running().open(limits)
            except OSError:
                self._end()
            try:
                return self._running().open(limits)
            except OSError as error:
                self._end()
                raise _ended(f"its server ended: {error}") from error

    def close(self) -> None:
        """Ends the server and every session."""
        with self._lock:
            self._end()

    def _running(self) -> "_Process":
        if self._process is None:
            self._process = _Process(self._without)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def _ended(why: str) -> SandboxError:
    return SandboxError(why, where="namespace", mend="`macaron doctor` tells what is missing")


class _Process:
    """One server process."""

    def __init__(self, without: Sequence[str]) -> None:
        with storage_errors(Path(tempfile.gettempdir())):
            self._folder = Path(tempfile.mkdtemp(prefix="namespaces-"))
            # The server gives up its rights and must still be able to enter.
            self._folder.chmod(0o755)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = self._start(theirs.fileno(), without)
        self.pid = self._process.pid
        try:
            self.level = self._level()
        except SandboxError:
            self.close()
            raise

    def _start(self, control: int, without: Sequence[str]) -> "subprocess.Popen[bytes]":
        config = {"control": control, "host": os.getpid(), "without": list(without)}
        return subprocess.Popen(
            [sys.executable, "-S", "-B", "-s", "-P", str(ZYGOTE), json.dumps(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            # The order of sets must be the same in training and in serving.
            env={"PYTHONHASHSEED": "0"},
            pass_fds=[control],
        )

    def _level(self) -> tuple[str, ...]:
        self._control.settimeout(START_S)
        try:
            level = json.loads(self._control.recv(1 << 16))
        except (OSError, ValueError) as error:
            raise _ended("its server did not start") from error
        if "seccomp" not in level:
            raise SandboxError(
                "this kernel cannot filter system calls, without which no session is safe",
                where="namespace",
                mend="run on Linux 5.5 or newer, on x86_64 or aarch64",
            )
        return tuple(level)

    def open(self, limits: Mapping[str, Any]) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._control, [json.dumps(limits).encode()], [theirs.fileno()])
        except OSError:
            ours.close()
            raise
        return ours

    def close(self) -> None:
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def shared_server() -> NamespaceServer:
    """This process's own server, started at first use; a forked process gets another."""
    return _server_of(os.getpid())


@cache
def _server_of(pid: int) -> NamespaceServer:
    server = NamespaceServer()
    atexit.register(_close_own, server, pid)
    return server


def _close_own(server: NamespaceServer, pid: int) -> None:
    # A forked process inherits the registration, and must not end its parent's server.
    if os.getpid() == pid:
        server.close()
