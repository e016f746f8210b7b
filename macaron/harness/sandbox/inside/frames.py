"""Messages on the pipes: one byte of kind, four of length, then that many bytes.

The other side may be hostile: a length over the limit is an error before anything is kept.
"""

from __future__ import annotations

import os
import struct

HEAD = struct.Struct("<cI")


class Broken(Exception):  # noqa: N818  (about the other side; caught where it is met)
    """The other side ended, or wrote what is no message."""


def packed(kind: bytes, body: bytes = b"") -> bytes:
    """The message's bytes."""
    return HEAD.pack(kind, len(body)) + body


def send(handle: int, kind: bytes, body: bytes = b"") -> None:
    """Writes one message to a descriptor that blocks."""
    data = packed(kind, body)
    while data:
        data = data[os.write(handle, data) :]


def receive(handle: int) -> tuple[bytes, bytes]:
    """The next message from a descriptor that blocks and whose other side is trusted.

    Raises:
        Broken: it ended.
    """
    kind, size = HEAD.unpack(_exactly(handle, HEAD.size))
    return kind, _exactly(handle, size)


def _exactly(handle: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(handle, min(size - len(parts), 1 << 16))
        if not part:
            raise Broken("it ended")
        parts += part
    return bytes(parts)


class Inbox:
    """Messages put together from the pieces that arrive."""

    def __init__(self, limit: int) -> None:
        self._bytes, self._limit = bytearray(), limit

    def add(self, piece: bytes) -> None:
        """Keeps what was read."""
        self._bytes += piece

    def clear(self) -> None:
        """Forgets what was not yet a message."""
        self._bytes.clear()

    def next(self) -> tuple[bytes, bytes] | None:
        """The next whole message, if it is there.

        Raises:
            Broken: it says that it is longer than the limit.
        """
        if len(self._bytes) < HEAD.size:
            return None
        kind, size = HEAD.unpack_from(self._bytes)
        if size > self._limit:
            raise Broken(f"a message of {size} bytes")
        if len(self._bytes) < HEAD.size + size:
            return None
        body = bytes(self._bytes[HEAD.size : HEAD.size + size])
        del self._bytes[: HEAD.size + size]
        return kind, body
