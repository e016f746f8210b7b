"""Offers turns until it is killed, and says which ones were acknowledged.

Run as `python -m tests.serve.offering_process URL`.
"""

import asyncio
import sys

from macaron.serve.sql.timeline import SqlTimeline, open_timeline
from tests.serve.turns import after, first

SESSIONS = 8


async def converse(timeline: SqlTimeline, name: str) -> None:
    """One session that never ends."""
    turn = first(name)
    while True:
        await timeline.offer([turn])
        print(turn.id, flush=True)
        turn = after(turn, f"{name}.{turn.number + 1}")


async def main(url: str) -> None:
    """Many sessions at once."""
    timeline = await open_timeline(url)
    await asyncio.gather(*(converse(timeline, f"resp_{n}") for n in range(SESSIONS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
