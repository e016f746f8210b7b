"""Responses begin, stream, end early and fail; adapters come and go under them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from macaron.engines.base import SampleParams
from macaron.engines.continuous.scheduler import Limits
from macaron.errors import BusyError, ConfigError, DigestError, ServiceError
from tests.engines.streams import same, sample, save_random, streaming

LONG = SampleParams(150, seed=4)
PROMPT = list(range(20, 60))


@pytest.fixture(scope="module")
def base(bases: dict[str, Path]) -> Path:
    return bases["qwen3"]


@pytest.fixture(scope="module")
def folders(base: Path, tmp_path_factory: Any) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("life")
    return {name: save_random(base, root / name, seed) for seed, name in enumerate(("r1", "r2"))}


@pytest.fixture
def with_engine(base: Path, folders: dict[str, Path]) -> Callable[..., None]:
    """Runs a test with an engine."""

    def run(test: Callable[[Any], Awaitable[None]], **options: Any) -> None:
        async def within() -> None:
            async with streaming(base, folders, **options) as engine:
                await asyncio.wait_for(test(engine), 60)

        asyncio.run(within())

    return run


def test_pieces_come_while_it_is_sampled(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        ticket = engine.submit(PROMPT, "r1", LONG)
        pieces = [piece async for piece in ticket.pieces()]
        assert len(pieces) > 1 and all(pieces)
        whole = await ticket.completion()
        assert [t for piece in pieces for t in piece] == whole.token_ids
        assert len(whole.token_ids) == len(whole.logprobs) == 150

    with_engine(test)


def test_a_cancelled_response_keeps_what_was_sampled(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        whole = await engine.submit(PROMPT, "r1", LONG).completion()
        ticket = engine.submit(PROMPT, "r1", SampleParams(4000, seed=LONG.seed))
        async for _ in ticket.pieces():
            ticket.cancel()
        found = await ticket.completion()
        assert 0 < len(found.token_ids) < 4000 and found.stop_reason == "length"
        assert found.token_ids[:150] == whole.token_ids[: len(found.token_ids)]
        ticket.cancel()
        assert await ticket.completion() == found

    with_engine(test)


def test_a_response_can_be_cancelled_before_it_began(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        first = engine.submit(PROMPT, "r1", LONG)
        second = engine.submit(PROMPT[1:], "r1", LONG)
        second.cancel()
        assert (await second.completion()).token_ids == []
        assert len((await first.completion()).token_ids) == 150

    with_engine(test, limits=Limits(rows=1))


def test_a_response_ends_with_the_window(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        found = await engine.submit(PROMPT, "r1", LONG).completion()
        assert len(found.token_ids) == 64 - len(PROMPT) and found.stop_reason == "length"
        with pytest.raises(ConfigError, match="window"):
            engine.submit(PROMPT * 2, "r1", LONG)

    with_engine(test, window=64)


def test_requests_that_cannot_be(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        with pytest.raises(ConfigError, match="no token"):
            engine.submit([], "r1", LONG)
        with pytest.raises(ConfigError, match="no adapter 'r9'"):
            engine.submit(PROMPT, "r9", LONG)
        with pytest.raises(ConfigError, match="option"):
            await engine.rank(PROMPT, [[1], []], "r1")

    with_engine(test)


def test_too_many_requests_are_refused_and_the_rest_served(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        tickets = [engine.submit(PROMPT, "r1", LONG) for _ in range(5)]
        with pytest.raises(BusyError):
            engine.submit(PROMPT, "r1", LONG)
        for ticket in tickets:
            await ticket.completion()
        await engine.submit(PROMPT, "r1", SampleParams(1)).completion()
        stats = engine.stats()
        assert (stats.responses, stats.running, stats.waiting) == (6, 0, 0)
        assert stats.sampled_tokens == 5 * 150 + 1

    with_engine(test, limits=Limits(rows=2), queue=3)


def test_a_long_prompt_does_not_stop_the_others(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        order: list[str] = []

        async def watch(name: str, ticket: Any) -> None:
            async for piece in ticket.pieces():
                order.extend([name] * len(piece))

        short = engine.submit(PROMPT, "r1", LONG)
        await anext(short.pieces())
        long = engine.submit([7] * 1500, "r2", SampleParams(1))
        await asyncio.gather(watch("short", short), watch("long", long))
        # 1500 tokens are read in 94 passes, and the other goes on between them.
        assert order.index("long") > 50

    with_engine(test, limits=Limits(chunk=16))


def test_a_failing_pass_ends_what_it_struck_and_no_more(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        passes = engine.worker.progress.passes
        logits = passes.logits

        def failing(feed: Any) -> Any:
            passes.logits = logits
            raise RuntimeError("out of memory")

        passes.logits = failing
        ticket = engine.submit(PROMPT, "r1", LONG)
        with pytest.raises(ServiceError, match="out of memory"):
            await ticket.completion()
        with pytest.raises(ServiceError):
            [piece async for piece in ticket.pieces()]
        assert len((await engine.submit(PROMPT, "r1", LONG).completion()).token_ids) == 150
        assert engine.stats().running == 0

    with_engine(test)


def test_numbers_that_are_none_end_their_own_response(
    with_engine: Any, folders: dict[str, Path], tmp_path: Path
) -> None:
    async def test(engine: Any) -> None:
        alone = await sample(engine, [(PROMPT, "r1", LONG)])
        with pytest.raises(DigestError, match="not numbers"):
            await engine.load("broken", _filled(folders["r1"], tmp_path / "nan", torch.nan))
        # These overflow on the way.
        await engine.load("broken", _filled(folders["r1"], tmp_path / "huge", 1e38))
        for _ in range(2):
            beside = engine.submit(PROMPT, "r1", LONG)
            broken = engine.submit(PROMPT, "broken", LONG)
            with pytest.raises(ServiceError, match="not numbers"):
                await broken.completion()
            with pytest.raises(ServiceError, match="not numbers"):
                await engine.rank(PROMPT, [[1], [2, 3]], "broken")
            same([await beside.completion()], alone)

    with_engine(test)


def _filled(folder: Path, target: Path, value: float) -> Path:
    target.mkdir()
    tensors = load_file(folder / "adapter_model.safetensors")
    for tensor in tensors.values():
        tensor.fill_(value)
    save_file(tensors, target / "adapter_model.safetensors")
    (target / "adapter_config.json").write_bytes((folder / "adapter_config.json").read_bytes())
    return target


def test_an_adapter_leaves_when_no_response_needs_it(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        [whole] = await sample(engine, [(PROMPT, "r2", LONG)])
        ticket = engine.submit(PROMPT, "r2", LONG)
        await anext(ticket.pieces())
        leaving = asyncio.create_task(engine.unload("r1"))
        await leaving
        assert engine.stats().adapters == 1
        leaving = asyncio.create_task(engine.unload("r2"))
        await asyncio.sleep(0)
        with pytest.raises(ConfigError):
            engine.submit(PROMPT, "r2", LONG)
        same([await ticket.completion()], [whole])
        await leaving
        assert (engine.stats().adapters, engine.stats().cache_bytes) == (0, 0)
        await engine.unload("r2")

    with_engine(test)


def test_an_adapter_can_come_back_while_it_leaves(
    with_engine: Any, folders: dict[str, Path]
) -> None:
    async def test(engine: Any) -> None:
        ticket = engine.submit(PROMPT, "r1", LONG)
        await anext(ticket.pieces())
        leaving = asyncio.create_task(engine.unload("r1"))
        await asyncio.sleep(0)
        await engine.load("r1", folders["r1"])
        await leaving
        again = engine.submit(PROMPT, "r1", LONG)
        same([await again.completion()], [await ticket.completion()])
        assert engine.stats().adapters == 2

    with_engine(test)


def test_loading_changes_nothing_for_what_runs(
    with_engine: Any, folders: dict[str, Path], base: Path, tmp_path: Path
) -> None:
    async def test(engine: Any) -> None:
        [whole] = await sample(engine, [(PROMPT, "r1", LONG)])
        ticket = engine.submit(PROMPT, "r1", LONG)
        await anext(ticket.pieces())
        await engine.load("more", save_random(base, tmp_path / "more", 9, rank=7))
        await engine.unload("r2")
        await engine.load("more", tmp_path / "more")
        same([await ticket.completion()], [whole])

    with_engine(test)


def test_adapters_that_do_not_fit(
    with_engine: Any, folders: dict[str, Path], tmp_path: Path
) -> None:
    def spoiled(name: str, config: dict[str, Any], drop: int = 0) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        tensors = dict(list(load_file(folders["r1"] / "adapter_model.safetensors").items())[drop:])
        save_file(tensors, folder / "adapter_model.safetensors")
        old = json.loads((folders["r1"] / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps({**old, **config}))
        return folder

    async def test(engine: Any) -> None:
        for folder in (
            spoiled("short", {}, drop=1),
            spoiled("rank", {"r": 8}),
            spoiled("dora", {"use_dora": True}),
            tmp_path / "none",
        ):
            with pytest.raises(DigestError):
                await engine.load("odd", folder)
        with pytest.raises(ConfigError):
            engine.submit(PROMPT, "odd", LONG)

    with_engine(test)


def test_closing_ends_all_that_runs(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        tickets = [engine.submit(PROMPT, "r1", LONG) for _ in range(3)]
        ranks = asyncio.create_task(engine.rank(PROMPT, [[1]], "r1"))
        await anext(tickets[0].pieces())
        await engine.close()
        for ticket in tickets:
            with pytest.raises(ServiceError, match="closed"):
                await ticket.completion()
        with pytest.raises(ServiceError, match="closed"):
            engine.submit(PROMPT, "r1", LONG)
        await engine.close()
        await asyncio.gather(ranks, return_exceptions=True)

    with_engine(test, limits=Limits(rows=1))


def test_the_base_exists_once_and_stays_as_it_was(with_engine: Any, base: Path) -> None:
    from macaron.engines.local import load_model

    async def test(engine: Any) -> None:
        await sample(engine, [(PROMPT, a, LONG) for a in ("r1", "r2", None)])
        causal = engine.worker.progress.passes.embed
        groups = engine.worker.bank.groups
        own = load_model(base, "float32").state_dict()
        held = {g.weight.data_ptr(): g.weight for g in groups}
        total = sum(w.numel() for n, w in own.items() if "layers" in n and "norm" not in n)
        assert sum(w.numel() for w in held.values()) == total
        for group in groups:
            parts = [own[f"{name}.weight"] for name in group.names]
            assert torch.equal(group.weight, torch.cat(parts))
        assert causal is not None

    with_engine(test)


def test_rows_wait_for_memory(with_engine: Any) -> None:
    requests = [([n] * 8, "r1", SampleParams(8, seed=n)) for n in range(1, 30)]
    requests += [([7] * 900, "r2", SampleParams(8)), ([5] * 900, "r2", SampleParams(8))]
    wanted: list[Any] = []

    async def plenty(engine: Any) -> None:
        wanted.extend(await sample(engine, requests))

    async def little(engine: Any) -> None:
        slots = engine.worker.progress.slots
        tickets = [engine.submit(*request) for request in requests]
        for ticket in tickets:
            await ticket.completion()
            assert slots.keys.nbytes + slots.values.nbytes <= 300_000
        same([await ticket.completion() for ticket in tickets], wanted)

    with_engine(plenty)
    # 256 bytes a token: one of the long rows, or 18 of the short ones.
    with_engine(little, limits=Limits(row_bytes=300_000))


def test_memory_does_not_grow_with_requests(with_engine: Any) -> None:
    async def test(engine: Any) -> None:
        async def some() -> tuple[int, int]:
            await sample(engine, [(PROMPT[n:], "r1", LONG) for n in range(8)])
            slots = engine.worker.progress.slots
            return slots.keys.nbytes + slots.values.nbytes, engine.stats().cache_bytes

        first = await some()
        for _ in range(5):
            assert await some() == first

    with_engine(test)
