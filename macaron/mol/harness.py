"""A pair's harness at work: it opens sessions; whatever samples for them stands elsewhere.

Everything that an answer depends on is here and in the pair: who opens a session with the same seed
and gives it the same messages gets the same tokens, alone or beside a thousand others.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from macaron.errors import DigestError
from macaron.harness.allowlist import Sources
from macaron.harness.namespace import Namespace
from macaron.harness.past import Past
from macaron.harness.pool.live import Origin, Snapshot
from macaron.harness.session import Session
from macaron.harness.tools import Tool
from macaron.hcp.document import HCP, load_hcp
from macaron.mol.kit import Kit, Workshop
from macaron.pair import HCP_FILE, Pair, load_pool


@dataclass(frozen=True)
class Harness:
    """A pair's HCP, tools and adapters' names."""

    hcp: HCP
    tokenizer: Any
    """The base's."""
    adapters: Mapping[str, str]
    """Specialist -> adapter revision; one that has none is the bare base."""
    namespaces: Callable[[int], Namespace] | None = None
    """Opens a sandboxed namespace from a seed, such as a pool's `acquire`; the REPL surface's."""
    sources: Sources = field(default_factory=dict)
    """What every session is provided besides: MCP servers' tools."""
    carried: Snapshot = field(default_factory=Snapshot)
    """The helpers that the pair carries."""
    workshop: Workshop | None = None
    """Where sessions save helpers, and from which later ones have them."""
    window: int | None = None
    """Longest prompt and response together, tokens; else the tokenizer's."""

    def session(
        self,
        seed: int,
        tools: Sequence[Tool] = (),
        temperature: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        origin: Origin | None = None,
        scratch: Workshop | None = None,
        past: Sequence[Past] = (),
    ) -> Session:
        """A conversation, new or going on.

        Args:
            seed: of all that is sampled in it.
            tools: what its environment provides.
            temperature: in place of the HCP's, for training.
            clock: seconds, for the limit on a turn's time.
            origin: the session's name in the record of helpers.
            scratch: a workshop of its own, for a session that no other may depend on; it can call
                the helpers that the pair carries.
            past: delivered turns of a session that goes on here.
        """
        made: list[Session] = []
        shared = self.workshop if scratch is None else None
        snapshot = shared.pool.snapshot() if shared else self.carried
        kit = Kit.of(self.hcp, snapshot, scratch or shared, origin or Origin(str(seed)))
        names = [tool.name for tool in tools]
        helpers = kit.sources(lambda *call: made[0].use(*call), names) if kit else {}
        session = Session(
            self.tokenizer,
            self.hcp,
            {**self.sources, **helpers, "environment": tuple(tools)},
            seed=seed,
            temperature=temperature,
            namespaces=self.namespaces,
            window=self.window,
            clock=clock,
            at_end=kit.end if kit else _nothing,
            past=past,
        )
        made.append(session)
        return session


def harness_of(
    pair: Pair,
    folder: Path,
    tokenizer: Any,
    *,
    namespaces: Callable[[int], Namespace] | None = None,
    sources: Sources | None = None,
    workshop: Workshop | None = None,
) -> Harness:
    """The harness of a pair, rebuilt from its own HCP.

    Args:
        pair: as loaded from the folder.
        folder: of the pair.
        tokenizer: the base's.
        namespaces: opens a sandboxed namespace from a seed; by default one is begun when needed.
        sources: what every session is provided besides.
        workshop: where sessions save helpers.

    Raises:
        DigestError: the HCP is not the pair's, or its helpers are damaged.
    """
    hcp = load_hcp(folder / HCP_FILE)
    if hcp.digest != pair.hcp:
        raise DigestError(
            f"digest is {hcp.digest[:12]}, the pair's is {pair.hcp[:12]}",
            where=str(folder / HCP_FILE),
            mend="restore it with `dvc pull`",
        )
    pool = load_pool(folder)
    carried = Snapshot.of(pool) if pool else Snapshot()
    return Harness(hcp, tokenizer, pair.adapters, namespaces, sources or {}, carried, workshop)


def _nothing() -> None:
    pass
