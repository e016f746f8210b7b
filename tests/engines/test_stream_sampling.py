"""A stream engine gives the local engine's tokens, whatever else it does at the same time."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from macaron.engines.base import SampleParams
from tests.engines.streams import (
    Request,
    local,
    model,
    one_by_one,
    same,
    sample,
    save_random,
    streaming,
)

NANO = Path(__file__).parents[2] / "models/nano"
OPTIONS = [[3, 4, 5], [6], [3, 9]]


@pytest.fixture(scope="module")
def adapters(bases: dict[str, Path], tmp_path_factory: Any) -> Callable[[str], dict[str, Path]]:
    """Three adapters of unlike ranks for an architecture."""
    made: dict[str, dict[str, Path]] = {}

    def adapters(architecture: str) -> dict[str, Path]:
        if architecture not in made:
            root = tmp_path_factory.mktemp(architecture)
            made[architecture] = {
                f"rev{rank}": save_random(bases[architecture], root / str(rank), rank, rank)
                for rank in (2, 4, 5)
            }
        return made[architecture]

    return adapters


def requests(revisions: list[str], count: int, seed: int = 0, longest: int = 60) -> list[Request]:
    """Unlike in everything."""
    rng = random.Random(seed)

    def one(number: int) -> Request:
        prompt = [rng.randrange(3, 250) for _ in range(rng.randrange(1, longest))]
        params = SampleParams(
            rng.randrange(1, 20),
            temperature=rng.choice([0.0, 0.6, 1.0]),
            seed=1000 * seed + number,
            stop_ids=tuple(range(10)),
            top_p=rng.choice([0.8, 1.0]),
        )
        return prompt, rng.choice([None, *revisions]), params

    return [one(number) for number in range(count)]


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_tokens_are_the_local_engines(
    architecture: str, lean: bool, bases: dict[str, Path], adapters: Any
) -> None:
    base, folders = bases[architecture], adapters(architecture)
    asked = requests([*folders], 24)
    wanted = one_by_one(local(base, folders), asked)
    assert len({tuple(c.token_ids) for c in wanted}) > 20

    async def run() -> None:
        async with streaming(base, folders, lean=lean) as engine:
            assert type(engine.worker.progress.passes).__name__ == (
                "LeanPasses" if lean else "ModelPasses"
            )
            same(await sample(engine, asked), wanted)
            # The second time most prompts are in the prefix cache.
            same(await sample(engine, asked), wanted)
            assert engine.stats().cached_tokens > 0
            for request, one in list(zip(asked, wanted, strict=True))[:4]:
                same(await sample(engine, [request]), [one])

    asyncio.run(run())


def test_nano_gives_the_local_engines_tokens(tmp_path: Path) -> None:
    folders = {f"r{n}": save_random(NANO, tmp_path / str(n), n, 8, 0.05) for n in range(4)}
    asked = requests([*folders], 12, seed=2, longest=100)

    async def run() -> None:
        from macaron.engines.continuous.load import load_streaming
        from macaron.engines.local import load_local

        engine = load_streaming(NANO)
        for revision, folder in folders.items():
            await engine.load(revision, folder)
        same(await sample(engine, asked), one_by_one(load_local(NANO, folders), asked))
        await engine.close()

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_come_and_go_do_not_touch_each_other(
    seed: int, bases: dict[str, Path], adapters: Any
) -> None:
    """With few slots, small chunks and a cache that forgets, at moments that chance chooses."""
    from macaron.engines.continuous.scheduler import Limits

    base, folders = bases["qwen3"], adapters("qwen3")
    asked = requests([*folders], 30, seed=10 + seed)
    wanted = one_by_one(local(base, folders), asked)
    limits = Limits(rows=5, rankings=2, chunk=24)

    async def run() -> None:
        rng = random.Random(seed)
        async with streaming(base, folders, limits=limits, cache_bytes=60_000) as engine:

            async def late(request: Request) -> Any:
                await asyncio.sleep(rng.random() * 0.05)
                if rng.random() < 0.3:
                    other = engine.submit(request[0][:5], request[1], request[2])
                    other.cancel()
                    await engine.rank(request[0], OPTIONS, request[1])
                return await engine.submit(*request).completion()

            same(await asyncio.gather(*map(late, asked)), wanted)
            assert engine.stats().cache_bytes <= 60_000

    asyncio.run(run())


@pytest.mark.parametrize("lean", [True, False])
def test_ranks_are_the_local_engines(lean: bool, bases: dict[str, Path], adapters: Any) -> None:
    base, folders = bases["qwen3"], adapters("qwen3")
    engine = local(base, folders)
    prompts = [([5, 6, 7], "rev2"), ([9] * 40, "rev4"), ([9] * 40, None), ([1], "rev5")]

    async def run() -> None:
        from macaron.engines.continuous.scheduler import Limits

        # A chunk that ends within the options, too.
        for chunk in (256, 2):
            async with streaming(base, folders, lean=lean, limits=Limits(chunk=chunk)) as stream:
                for _ in range(2):
                    calls = [stream.rank(p, OPTIONS, a) for p, a in prompts]
                    for (prompt, adapter), row in zip(
                        prompts, await asyncio.gather(*calls), strict=True
                    ):
                        [wanted] = engine.rank([prompt], OPTIONS, adapter)
                        assert row == pytest.approx(wanted, abs=1e-4)

    asyncio.run(run())


def test_experts_are_served_one_adapter_at_a_time(bases: dict[str, Path], caplog: Any) -> None:
    asked = requests([], 8, seed=5)

    async def run() -> None:
        async with streaming(bases["qwen3_moe"], {}) as engine:
            assert "one adapter at a time" in caplog.text
            same(await sample(engine, asked), one_by_one(local(bases["qwen3_moe"], {}), asked))
            [first, *_] = await engine.rank([4, 5], OPTIONS, None)
            assert first < 0

    asyncio.run(run())


def test_a_model_with_windows_is_served_one_adapter_at_a_time(bases: dict[str, Path]) -> None:
    from macaron.engines.continuous.load import stream
    from macaron.engines.continuous.serial import Serial

    causal = model(bases["qwen3"])
    causal.config.layer_types = ["sliding_attention", "full_attention"]
    causal.config.sliding_window = 8
    assert isinstance(stream(causal).worker, Serial)


def test_a_bf16_base_gives_rows_of_its_own(bases: dict[str, Path], adapters: Any) -> None:
    from macaron.engines.continuous.load import stream

    async def run() -> None:
        engine = stream(model(bases["qwen3"]).bfloat16())
        await engine.load("rev4", adapters("qwen3")["rev4"])
        request = ([5, 6, 7] * 9, "rev4", SampleParams(8, seed=1))
        [alone] = await sample(engine, [request])
        assert len(alone.token_ids) == 8
        assert engine.worker.bank.groups[0].low.dtype == engine.worker.progress.slots.shape.dtype
        await engine.close()

    asyncio.run(run())


def test_what_peft_saves_can_be_loaded(
    bases: dict[str, Path], make_engine: Any, tmp_path: Path
) -> None:
    engine = make_engine("qwen3")
    engine.model.save_pretrained(tmp_path, selected_adapters=["one"])
    asked = requests(["one"], 6, seed=7)

    async def run() -> None:
        async with streaming(bases["qwen3"], {"one": tmp_path / "one"}) as stream:
            same(await sample(stream, asked), one_by_one(engine, asked))

    asyncio.run(run())
