"""Tokens a second and time to the first token, of the stream engine and of its peers.

A load is: sessions that all ask at once, each of an adapter of its own turn, with a random prompt
and a fixed number of sampled tokens. The peers serve one adapter's sessions as a batch, then the
next adapter's: transformers' generate over one model with PEFT's set_adapter, and over four merged
copies. The strongest peer is no product: four merged copies, each in a stream engine of ours, with
a thread each where the others have one in all.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.serving_bases import SPECIALISTS, Bundle, load, owners, prompts
from macaron.engines.base import SampleParams
from macaron.engines.continuous.engine import ContinuousEngine
from macaron.engines.continuous.load import load_streaming


@dataclass(frozen=True)
class Load:
    """Sessions that ask at once."""

    prompts: list[list[int]]
    owners: list[str]
    tokens: int
    """Sampled in each."""


@dataclass(frozen=True)
class Speed:
    """What a load took."""

    tokens_per_s: float
    tokens_per_cpu_s: float
    """By the time that all threads ran; it tells systems apart on a machine with other work."""
    first_ms: float
    """Until a session's first token, the median over sessions."""


def make_load(sessions: int, prompt: int, tokens: int, vocabulary: int) -> Load:
    """A load of random prompts."""
    return Load(prompts(sessions, prompt, vocabulary), [*owners(sessions)], tokens)


def timed(load: Load, serve: Callable[[Load, Callable[[int], None]], None]) -> Speed:
    """Serves a load.

    Args:
        serve: calls what it is given with a session's number when its first token is there.
    """
    first: dict[int, float] = {}
    started, before = time.perf_counter(), time.process_time()
    serve(load, lambda session: first.setdefault(session, time.perf_counter() - started) and None)
    wall, cpu = time.perf_counter() - started, time.process_time() - before
    assert len(first) == len(load.prompts)
    tokens = len(load.prompts) * load.tokens
    return Speed(tokens / wall, tokens / cpu, 1000 * median(first.values()))


class Streams:
    """Stream engines, one or one for each adapter."""

    def __init__(self, engines: dict[str, ContinuousEngine], adapters: dict[str, Path]) -> None:
        """
        Args:
            engines: adapter -> the engine that serves it.
            adapters: to load into all of them; none where they are merged.
        """
        self.engines, self.adapters = engines, adapters
        self._loop = asyncio.new_event_loop()
        for engine in set(engines.values()):
            for revision, folder in adapters.items():
                self._loop.run_until_complete(engine.load(revision, folder))

    def serve(self, load: Load, first: Callable[[int], None]) -> None:
        """As in `timed`."""
        self._loop.run_until_complete(self._serve(load, first))

    async def _serve(self, load: Load, first: Callable[[int], None]) -> None:
        async def session(number: int) -> None:
            owner = load.owners[number]
            ticket = self.engines[owner].submit(
                load.prompts[number],
                owner if self.adapters else None,
                SampleParams(load.tokens, seed=number),
            )
            async for _ in ticket.pieces():
                first(number)
            assert len((await ticket.completion()).token_ids) == load.tokens

        await asyncio.gather(*map(session, range(len(load.prompts))))

    def close(self) -> None:
        """Ends the engines."""
        for engine in set(self.engines.values()):
            self._loop.run_until_complete(engine.close())
        self._loop.close()


class Generate:
    """transformers' generate, one adapter's sessions after the other's."""

    def __init__(self, model_of: Callable[[str], Any]) -> None:
        """
        Args:
            model_of: adapter -> the model to use from now on.
        """
        self.model_of = model_of

    def close(self) -> None:
        """Nothing runs."""

    @torch.no_grad()
    def serve(self, load: Load, first: Callable[[int], None]) -> None:
        """As in `timed`."""
        for owner in SPECIALISTS:
            numbers = [n for n, o in enumerate(load.owners) if o == owner]
            if numbers:
                self._batch(self.model_of(owner), load, numbers, first)

    def _batch(
        self, model: Any, load: Load, numbers: list[int], first: Callable[[int], None]
    ) -> None:
        ids = torch.tensor([load.prompts[n] for n in numbers])

        def watch(*_: object, **__: object) -> Any:
            for number in numbers:
                first(number)
            return torch.zeros(len(numbers), dtype=torch.bool)

        found = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            max_new_tokens=load.tokens,
            min_new_tokens=load.tokens,
            stopping_criteria=[watch],
        )
        assert found.shape[1] == ids.shape[1] + load.tokens


def stream_engine(bundle: Bundle, threads: int) -> Streams:
    """Ours: one base, all adapters."""
    # No prefix cache: what is measured is computing.
    engine = load_streaming(bundle.base, threads=threads, cache_bytes=0)
    return Streams(dict.fromkeys(SPECIALISTS, engine), bundle.adapters)


def merged_streams(bundle: Bundle, threads: int) -> Streams:
    """Four merged copies, each in an engine of ours."""
    engines = [load_streaming(f, threads=threads, cache_bytes=0) for f in bundle.merged]
    return Streams(dict(zip(SPECIALISTS, engines, strict=True)), {})


def set_adapter(peft_model: Any) -> Generate:
    """One PeftModel whose adapter is set before each batch."""

    def model_of(owner: str) -> Any:
        peft_model.set_adapter(owner)
        return peft_model

    return Generate(model_of)


def merged_copies(bundle: Bundle) -> Generate:
    """Four transformers models."""
    models = {o: load(f) for o, f in zip(SPECIALISTS, bundle.merged, strict=True)}
    return Generate(models.__getitem__)
