"""A service on a stage: real pairs, real timeline, real log; only the tokens are written by hand.

The engine here is no model: it answers from a script, so that a test decides what is said.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from macaron.engines.base import Completion, SampleParams
from macaron.engines.stream import EngineStats
from macaron.errors import ConfigError, ServiceError
from macaron.experience.log import TurnLog
from macaron.hcp.document import load_hcp
from macaron.messages import Message
from macaron.mint.revision import identity_adapters
from macaron.mol.harness import harness_of
from macaron.pair import Pair, base_digest
from macaron.profile import LoraConfig
from macaron.registry.pairs import PairStore
from macaron.serve.counts import Counts
from macaron.serve.deployment import Deployment
from macaron.serve.records import TurnRecord
from macaron.serve.service import Limits, MolService
from macaron.serve.sql.timeline import open_timeline
from macaron.serve.turns import Delta, Event, Finished, TurnRequest
from tests.project import HOUSE

BASE = HOUSE / "models/nano"
HCP = """
version = "1.1"
[router]
system = "route"
default = "L2"
[memory]
summary_tokens = 12
[session]
turn_s = 5.0
"""
SPECIALISTS = {"L0": "chat", "L1": "agent", "L2": "coding", "L3": "genui"}


def document(more: str = "") -> str:
    """A harness of four specialists whose system prompts are their names."""
    each = (
        f'[specialists.{key}]\nname = "{name}"\nsystem = "{name}"\nmax_tokens = 64\n'
        f"temperature = 1.0\n"
        for key, name in SPECIALISTS.items()
    )
    return HCP + "\n".join(each) + more


Script = Callable[[str, str | None], str]
"""Prompt as text and adapter -> the response."""


def echo(prompt: str, adapter: str | None) -> str:
    """Says who answers and the last thing that the user said."""
    return f"{(adapter or 'base')[:6]} heard {last_said(prompt)}"


def last_said(prompt: str) -> str:
    """The last user message in a prompt of nano's template."""
    return prompt.rpartition("<|user|>")[2].partition("<|")[0].strip()


@dataclass
class ScriptTicket:
    """One response of the script."""

    ids: list[int]
    pause: float
    cached_tokens: int = 0
    given: int = 0
    cancelled: bool = False

    async def pieces(self) -> AsyncIterator[list[int]]:
        for i in self.ids:
            await asyncio.sleep(self.pause)
            if self.cancelled:
                return
            self.given += 1
            yield [i]

    async def completion(self) -> Completion:
        if not self.cancelled:
            while self.given < len(self.ids):
                await asyncio.sleep(self.pause)
                self.given = len(self.ids)
        kept = self.ids[: self.given]
        ended = self.given == len(self.ids)
        return Completion(kept, [-0.5] * len(kept), "stop" if ended else "length")

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class ScriptEngine:
    """A `StreamEngine` without a model."""

    tokenizer: Any
    script: Script = echo
    pause: float = 0.0
    loaded: set[str] = field(default_factory=set)
    asked: list[tuple[tuple[int, ...], str | None]] = field(default_factory=list)
    """Every prompt, with its adapter."""
    router_is_broken: bool = False

    def submit(
        self, prompt: Sequence[int], adapter: str | None, params: SampleParams
    ) -> ScriptTicket:
        if adapter is not None and adapter not in self.loaded:
            raise ConfigError(f"no adapter {adapter} is loaded")
        self.asked.append((tuple(prompt), adapter))
        text = self.script(self.tokenizer.decode(list(prompt)), adapter)
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        ids = [*ids[: params.max_tokens - 1], self.tokenizer.eos_token_id]
        return ScriptTicket(ids, self.pause)

    async def rank(
        self, prompt: Sequence[int], options: Sequence[Sequence[int]], adapter: str | None
    ) -> list[float]:
        """A text with "@coding" goes to coding; others go to chat."""
        if self.router_is_broken:
            raise ServiceError("the engine is gone", where="engine")
        said = last_said(self.tokenizer.decode(list(prompt)))
        names = [self.tokenizer.decode(list(o), skip_special_tokens=True) for o in options]
        return [0.0 if f"@{name}" in said else -1.0 - n for n, name in enumerate(names)]

    async def load(self, revision: str, folder: Path) -> None:
        if not (folder / "adapter_model.safetensors").exists():
            raise ConfigError("no adapter here", where=str(folder))
        self.loaded.add(revision)

    async def unload(self, revision: str) -> None:
        self.loaded.discard(revision)

    def stats(self) -> EngineStats:
        return EngineStats(adapters=len(self.loaded))

    async def close(self) -> None:
        pass


@dataclass
class Stage:
    """Everything that a service needs, under one folder."""

    folder: Path
    tokenizer: Any
    engine: ScriptEngine
    champion: str
    store: PairStore
    counts: Counts = field(default_factory=Counts)

    @property
    def log(self) -> TurnLog:
        return TurnLog(self.folder / "turns")

    async def service(self, **limits: Any) -> MolService:
        """A started server; each is a new life."""
        deployment = Deployment(
            self.engine,
            base_digest(BASE),
            self.store,
            lambda: self.champion,
            lambda pair, folder: harness_of(pair, folder, self.tokenizer),
            self.counts,
            keep=2,
        )
        timeline = await open_timeline(f"sqlite:///{self.folder / 'timeline.db'}")
        options = Limits(**{"look_s": 3600.0, **limits})
        service = MolService(deployment, self.engine, timeline, self.log, self.counts, options)
        await service.start()
        return service


def make_pair(store: PairStore, folder: Path, seed: int, more: str = "") -> Pair:
    """A pair of the shipped base with fresh adapters."""
    folder.mkdir(parents=True, exist_ok=True)
    hcp = folder / "hcp.toml"
    hcp.write_text(document(more))
    keys = tuple(load_hcp(hcp).specialists)
    made = folder / "adapters"
    kept = [key for key in keys if key in SPECIALISTS]
    identity_adapters(BASE, LoraConfig(rank=8, alpha=16), made, tuple(kept), seed=seed)
    return store.create(
        base_digest(BASE), {k: made / k for k in kept}, hcp, parent=None, generation=0
    )


def ask(text: str, previous: str | None = None, **more: Any) -> TurnRequest:
    """A request with a user's text."""
    messages: list[Message] = [{"role": "user", "content": text}]
    values: dict[str, Any] = {"kind": "response", "key": "k1", "messages": messages, **more}
    return TurnRequest(previous=previous, **values)


async def answer(service: MolService, request: TurnRequest) -> TurnRecord:
    """A delivered turn; what was streamed is its answer."""
    opened = await service.begin(request)
    events: list[Event] = [event async for event in opened.events()]
    await opened.offer()
    await opened.deliver()
    (finished,) = [e for e in events if isinstance(e, Finished) and e.index == 0]
    said = "".join(e.text for e in events if isinstance(e, Delta) and e.index == 0)
    assert said == finished.turn.answer
    return finished.turn
