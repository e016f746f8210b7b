"""The socket between the host and a session's keeper; a keeper that fails is `Gone`."""

import contextlib
import json
import os
import select
import signal
import socket
import time

from macaron.harness.namespace_server import START_S
from macaron.harness.sandbox.inside import frames


class Gone(Exception):  # noqa: N818  (caught by the namespace, which says it in a cell)
    """The session's keeper ended, or did not answer."""


class Link:
    """The socket to a session's keeper."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._inbox = connection, frames.Inbox(1 << 26)
        self._pid, self._ready = 0, False

    def send(self, kind: bytes, body: bytes = b"") -> None:
        """Sends a message; a keeper that is gone shows when its answer is read."""
        with contextlib.suppress(OSError):
            self._socket.settimeout(START_S)
            self._socket.sendall(frames.packed(kind, body))

    def receive(self, seconds: float) -> tuple[bytes, bytes]:
        """The keeper's next message.

        Raises:
            Gone: it ended, could not begin, or did not answer in time.
        """
        if not self._ready:
            self._greet()
        return self._next(seconds)

    def _greet(self) -> None:
        """The server's word who the keeper is, and the keeper's that it is ready."""
        kind, body = self._next(START_S)
        if kind == b"P":
            self._pid = int(body)
            kind, body = self._next(START_S)
        if kind != b"L":
            raise Gone(json.loads(body)["error"])
        self._ready = True

    def _next(self, seconds: float) -> tuple[bytes, bytes]:
        deadline = time.monotonic() + seconds
        while (message := self._inbox.next()) is None:
            left = deadline - time.monotonic()
            try:
                if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                    raise Gone(f"no answer in {seconds:.0f} s")
                piece = self._socket.recv(1 << 16)
            except OSError as error:
                raise Gone(str(error)) from error
            if not piece:
                raise Gone("its process is gone")
            self._inbox.add(piece)
        return message

    def close(self) -> None:
        """Ends the keeper, and all that it keeps."""
        if self._pid and not self._hung_up():
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
        self._socket.close()

    def _hung_up(self) -> bool:
        # Its number may be another's once it is gone.
        poller = select.poll()
        poller.register(self._socket, select.POLLRDHUP)
        return bool(poller.poll(0))
