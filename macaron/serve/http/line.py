"""A client's connection: hands over bytes, and knows whether the client is still there.

An answer counts as handed over only if nothing was heard of the client's leaving before its last
bytes went to the network.
"""

import asyncio

from macaron.serve.http.asgi import Receive, Send, encoded

PIECE = 1 << 16
"""Most bytes that are handed over at once; the rest waits until the client has read."""
PASSES = 4
"""Of the event loop, until a leaving that the kernel knows of is known here: it is polled, the
connection is closed, the server wakes who listens, and `watch` is told."""


class GoneError(Exception):
    """The client left before the last byte."""


class Line:
    """One request's connection, its request body read already."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self.gone = False
        self.started = False
        self.handing = False
        """The last bytes are on their way; what is heard now says nothing of them."""

    async def watch(self) -> None:
        """Returns when the client has gone, or has all."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = self.gone or not self.handing

    async def start(self, status: int, headers: dict[str, str]) -> None:
        """Sends the status and the headers."""
        self.started = True
        start = {"type": "http.response.start", "status": status, "headers": encoded(headers)}
        await self._send(start)

    async def write(self, body: bytes) -> None:
        """Sends a piece; returns when the client keeps up."""
        if self.gone:
            raise GoneError
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        # Sending need not suspend, and what happens to the connection has to be heard.
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Waits until the last bytes can go out at once.

        Raises:
            GoneError: the client has left.
        """
        await self.write(b"")
        for _ in range(PASSES):
            await asyncio.sleep(0)
        if self.gone:
            raise GoneError

    async def end(self, body: bytes) -> None:
        """Sends the last bytes, at most `PIECE` of them; `flush` comes before it."""
        self.handing = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})
