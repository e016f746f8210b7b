"""A pair at work: sessions under its HCP, turns from its adapters; in rollouts as in serving.

Everything that an answer depends on is here and in the pair: who opens a session with the same seed
and gives it the same messages gets the same tokens, alone or beside a thousand others.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from macaron.engines.base import Engine
from macaron.errors import DigestError
from macaron.harness.allowlist import Sources
from macaron.harness.driver import Start, run_turns
from macaron.harness.namespace import Namespace
from macaron.harness.pool.live import Origin, Snapshot
from macaron.harness.session import Session
from macaron.harness.tools import Tool
from macaron.harness.turn import Turn
from macaron.hcp.document import HCP, load_hcp
from macaron.messages import Message
from macaron.mol.kit import Kit, Workshop
from macaron.mol.router import route
from macaron.pair import HCP_FILE, Pair, load_pool


@dataclass(frozen=True)
class Runtime:
    """A harness and adapters on an engine that has their base."""

    hcp: HCP
    engine: Engine
    tokenizer: Any
    """The base's."""
    adapters: Mapping[str, str]
    """Specialist -> adapter revision."""
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
    ) -> Session:
        """A new conversation.

        Args:
            seed: of all that is sampled in it.
            tools: what its environment provides.
            temperature: in place of the HCP's, for training.
            clock: seconds, for the limit on a turn's time.
            origin: the session's name in the record of helpers.
            scratch: a workshop of its own, for a session that no other may depend on; it can call
                the helpers that the pair carries.
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
        )
        made.append(session)
        return session

    def turns(self, starts: Sequence[Start]) -> list[Turn]:
        """A turn of each session, batched; neither delivered nor undone."""
        return run_turns(self.engine, self.adapters, starts)

    def route(self, conversations: Sequence[Sequence[Message]]) -> list[str]:
        """The specialist for each conversation's last turn."""
        return route(self.engine, self.tokenizer, self.hcp, conversations, self.adapters["L0"])


def runtime_of(
    pair: Pair,
    folder: Path,
    engine: Engine,
    tokenizer: Any,
    *,
    namespaces: Callable[[int], Namespace] | None = None,
    sources: Sources | None = None,
    workshop: Workshop | None = None,
) -> Runtime:
    """The runtime of a pair, rebuilt from its own HCP.

    Args:
        pair: as loaded from the folder.
        folder: of the pair.
        engine: has the pair's base and adapters.
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
    return Runtime(
        hcp, engine, tokenizer, pair.adapters, namespaces, sources or {}, carried, workshop
    )


def _nothing() -> None:
    pass
