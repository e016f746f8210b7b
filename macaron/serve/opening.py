"""Putting a server's parts together from a project's settings: engine, timeline, pairs, log."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from macaron.engines.continuous.load import load_streaming
from macaron.engines.stream import StreamEngine
from macaron.environments import references
from macaron.errors import ConfigError
from macaron.experience.log import TurnLog
from macaron.experience.users import pseudonym
from macaron.harness.allowlist import Sources
from macaron.harness.mcp import McpServers
from macaron.harness.namespace_pool import NamespacePool
from macaron.hcp.document import HCP, load_hcp
from macaron.mindforge.cycle import check_base
from macaron.mindforge.stores import live_pool, pair_store, tracking
from macaron.mol.harness import Harness, harness_of
from macaron.mol.kit import Workshop, saves
from macaron.pair import HCP_FILE, Pair, base_digest
from macaron.profile import load_profile
from macaron.registry.pairs import PairStore
from macaron.serve.counts import Counts
from macaron.serve.deployment import Deployment
from macaron.serve.service import Limits, MolService
from macaron.serve.timeline import Timeline
from macaron.settings import Settings

log = logging.getLogger("macaron.serve")

TURNS = "turns"
"""Folder of the served turns' log in the state folder; each cycle collects from it."""
CHAMPION = "champion"


@dataclass(frozen=True)
class Opening:
    """What a server is opened with."""

    settings: Settings
    pair: str = CHAMPION
    """`champion` follows the alias; an id, or its beginning, stays with that pair."""
    limits: Limits = field(default_factory=Limits)

    @property
    def base(self) -> Path:
        """Folder of the base."""
        profile = f"models/profiles/{self.settings.profile}.toml"
        return check_base(self.settings.path(load_profile(self.settings.path(profile)).base))


def open_service(opening: Opening, engine: StreamEngine, timeline: Timeline) -> MolService:
    """A service that is not started yet.

    Args:
        opening: what it is opened with.
        engine: has the base.
        timeline: where turns are kept.
    """
    from transformers import AutoTokenizer

    settings, base = opening.settings, opening.base
    store, counts = pair_store(settings), Counts()
    tokenizer = AutoTokenizer.from_pretrained(base)
    means = Means(settings)
    deployment = Deployment(
        engine,
        base_digest(base),
        store,
        champion_of(settings, opening.pair, store),
        lambda pair, folder: means.harness(pair, folder, tokenizer),
        counts,
    )
    turns = TurnLog(settings.state / TURNS)
    return MolService(
        deployment,
        engine,
        timeline,
        turns,
        counts,
        opening.limits,
        means.close,
        partial(pseudonym, settings),
    )


def local_engine(opening: Opening, rows: int, cache_bytes: int, threads: int) -> StreamEngine:
    """The base of the profile, resident in this process.

    Args:
        opening: names the profile.
        rows: the most responses in one forward pass.
        cache_bytes: the most that the prefix cache holds.
        threads: of the arithmetic.
    """
    profile = opening.settings.path(f"models/profiles/{opening.settings.profile}.toml")
    dtype = load_profile(profile).dtype
    return load_streaming(
        opening.base, threads=threads, dtype=dtype, rows=rows, cache_bytes=cache_bytes
    )


def champion_of(settings: Settings, pair: str, store: PairStore) -> Callable[[], str]:
    """Says which pair new sessions get, whenever it is asked."""
    if pair != CHAMPION:
        fixed = store.resolve(pair)
        return lambda: fixed
    registry = tracking(settings, settings.model_name)

    def champion() -> str:
        found = registry.champion()
        if found is None:
            raise ConfigError(
                "there is no champion",
                where=settings.model_name,
                mend="run `macaron improve` first, or name a pair with --pair",
            )
        return found.pair_id

    return champion


class Means:
    """What pairs' harnesses need of this machine: namespaces, MCP servers, workshops."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._servers: dict[str, McpServers] = {}
        self._spaces: dict[str, NamespacePool] = {}

    def harness(self, pair: Pair, folder: Path, tokenizer: Any) -> Harness:
        """A pair's harness, with everything that its HCP names.

        Raises:
            ConfigError: an MCP server cannot be reached.
            DigestError: the pair is damaged.
        """
        hcp = load_hcp(folder / HCP_FILE)
        spaces = self._namespaces(hcp)
        return harness_of(
            pair,
            folder,
            tokenizer,
            namespaces=spaces.acquire if spaces else None,
            sources=self._sources(hcp),
            workshop=self._workshop(hcp, pair),
        )

    def close(self) -> None:
        """Ends servers and namespaces."""
        for servers in self._servers.values():
            servers.close()
        for spaces in self._spaces.values():
            spaces.close()

    def _namespaces(self, hcp: HCP) -> NamespacePool | None:
        if not any(s.surface == "repl" for s in hcp.specialists.values()):
            return None
        key = hcp.workspace.model_dump_json()
        if key not in self._spaces:
            self._spaces[key] = NamespacePool(limits=hcp.workspace)
        return self._spaces[key]

    def _sources(self, hcp: HCP) -> Sources:
        if not hcp.mcp:
            return {}
        if hcp.digest not in self._servers:
            self._servers[hcp.digest] = McpServers(hcp)
        return self._servers[hcp.digest].sources()

    def _workshop(self, hcp: HCP, pair: Pair) -> Workshop | None:
        if not saves(hcp):
            return None
        pool = live_pool(self._settings, pair.id)
        return Workshop(pool, references(), _seed_of(self._settings))


def _seed_of(settings: Settings) -> int:
    """The host's own seed for held-out references, made once."""
    import secrets

    from macaron.files import write_atomic

    path = settings.state / "references.seed"
    if not path.exists():
        write_atomic(path, str(secrets.randbits(62)))
    return int(path.read_text())
