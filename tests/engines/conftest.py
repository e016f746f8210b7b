"""Tiny engines of three architectures, each with two adapters that do something."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import Architecture, tiny_base

ARCHITECTURES: tuple[Architecture, ...] = ("qwen3", "llama", "qwen3_moe")


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Architecture -> folder of a random base."""
    root = tmp_path_factory.mktemp("bases")
    return {name: tiny_base(root / name, name) for name in ARCHITECTURES}


def stir(engine: Any, adapter: str, size: float = 0.1) -> None:
    """Gives an adapter's B random values, so that the adapter has an effect."""
    import torch

    from macaron.engines.adapters import parameters_of

    generator = torch.Generator().manual_seed(sum(map(ord, adapter)))
    with torch.no_grad():
        for name, parameter in parameters_of(engine.model, adapter).items():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * size)


@pytest.fixture(scope="session")
def make_engine(bases: dict[str, Path]) -> Callable[..., Any]:
    """An engine with adapters "one" and "two", as new.

    Engines are kept and put back to how they started, since loading one costs more than most
    tests; `fresh` makes one that no other test will be given.
    """
    kept: dict[tuple[Any, ...], tuple[Any, dict[str, Any]]] = {}

    def make(
        architecture: str = "qwen3", batch: int = 64, lean: bool = True, fresh: bool = False
    ) -> Any:
        key = (architecture, batch, lean)
        if fresh:
            return _new(bases[architecture], batch, lean)
        if key not in kept:
            engine = _new(bases[architecture], batch, lean)
            kept[key] = engine, {name: _values(engine, name) for name in NAMES}
        engine, values = kept[key]
        _put_back(engine, values)
        return engine

    return make


NAMES = ("one", "two")


def _new(base: Path, batch: int, lean: bool) -> Any:
    from macaron.engines.local import LocalEngine, load_local

    loaded = load_local(base, {}, batch=batch)
    # At its random size the tied embedding allows no token more than twice another's chance.
    loaded.causal.get_input_embeddings().weight.mul_(10)
    engine = LocalEngine(loaded.model, loaded.pad_id, batch, lean=lean)
    for seed, name in enumerate(NAMES):
        engine.create(name, rank=4, alpha=8, seed=seed)
        stir(engine, name)
    return engine


def _values(engine: Any, name: str) -> dict[str, Any]:
    from macaron.engines.adapters import adapter_state

    return {key: value.clone() for key, value in adapter_state(engine.model, name).items()}


def _put_back(engine: Any, values: dict[str, Any]) -> None:
    from macaron.engines.adapters import assign_adapter

    for name in engine.adapters - set(NAMES):
        engine.delete(name)
    for name in set(NAMES) - engine.adapters:
        engine.create(name, rank=4, alpha=8, seed=0)
    for name in NAMES:
        assign_adapter(engine.model, name, values[name])
    engine.model.requires_grad_(False)


@pytest.fixture(params=ARCHITECTURES)
def engine(request: pytest.FixtureRequest, make_engine: Callable[..., Any]) -> Any:
    """An engine of each architecture."""
    return make_engine(request.param)
