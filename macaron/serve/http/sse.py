"""Server-sent events: JSON in one line each, so that no text can break out of its event."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    # Nginx would hold the pieces back.
    "x-accel-buffering": "no",
}
DONE = b"data: [DONE]\n\n"
ALIVE = b": keep-alive\n\n"
Item = TypeVar("Item")


def dumps(value: Any) -> bytes:
    """A value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def data(value: Any, event: str | None = None) -> bytes:
    """One event."""
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + dumps(value) + b"\n\n"


async def paced(items: AsyncIterator[Item], seconds: float) -> AsyncGenerator[Item | None]:
    """The items as they come, and None whenever none came for some seconds.

    However it ends, the source is closed first.
    """
    coming: asyncio.Task[Item] | None = None
    try:
        while True:
            coming = coming or asyncio.create_task(_next(items))
            done, _ = await asyncio.wait({coming}, timeout=seconds)
            if not done:
                yield None
                continue
            try:
                item = coming.result()
            except StopAsyncIteration:
                return
            coming = None
            yield item
    finally:
        await _close(items, coming)


async def _next(items: AsyncIterator[Item]) -> Item:
    return await anext(items)


async def _close(items: AsyncIterator[Item], coming: asyncio.Task[Item] | None) -> None:
    if coming is not None and not coming.done():
        coming.cancel()
        await asyncio.wait({coming})
    if close := getattr(items, "aclose", None):
        await close()
