"""Carrying: the live pool into the folder that the next pair takes with it.

Equal pools give equal folders. What is only a candidate stays behind.
"""

from collections.abc import Iterator
from pathlib import Path

from macaron.harness.pool.live import LivePool
from macaron.pool.packed import Packed, write_packed
from macaron.pool.state import Entry, Event


def carry(pool: LivePool, folder: Path) -> Path | None:
    """Packs what can be called, what was demoted, and the evidence for both.

    Args:
        pool: the parent pair's.
        folder: a new one, for `PairStore.create(tools=...)`.

    Returns:
        The folder; None where there is nothing to carry.
    """
    state = pool.state()
    demoted = {d: entry for d, entry in state.demoted().items() if _ours(entry, pool.pairs)}
    tools = {name: pool.tool(digest) for name, digest in sorted(state.tools.items())}
    if not tools and not demoted:
        return None
    kept = {tool.digest for tool in tools.values()} | demoted.keys()
    packed = Packed(
        tools=tools,
        demoted={digest: pool.tool(digest) for digest in sorted(demoted)},
        reasons={digest: entry.reason for digest, entry in demoted.items()},
        events=list(_evidence(pool, kept)),
    )
    return write_packed(packed, folder)


def _ours(entry: Entry, pairs: frozenset[str]) -> bool:
    """Whether the tool was ever one of this family's, and not only of another's."""
    return any(event["pair"] in pairs for event in entry.events)


def _evidence(pool: LivePool, kept: set[str]) -> Iterator[Event]:
    for event in pool.events:
        if event["event"] == "used":
            tools = {digest: use for digest, use in event["tools"].items() if digest in kept}
            if tools:
                yield {**event, "tools": tools}
        elif event["digest"] in kept and not _strange(event, pool.pairs):
            yield event


def _strange(event: Event, pairs: frozenset[str]) -> bool:
    """A promotion that this family never had."""
    return event["event"] == "tried" and event["promoted"] and event["pair"] not in pairs
