"""Stream engines over random bases, and the local engine that must give the same tokens."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from macaron.engines.base import Completion, SampleParams

Request = tuple[Sequence[int], str | None, SampleParams]


def model(base: Path) -> Any:
    """A tiny base whose tokens differ in their chances; see tests/engines/conftest.py."""
    from macaron.engines.local import load_model

    causal = load_model(base, "float32")
    causal.requires_grad_(False).get_input_embeddings().weight.mul_(10)
    return causal


@asynccontextmanager
async def streaming(base: Path, adapters: dict[str, Path], **options: Any) -> AsyncIterator[Any]:
    """A stream engine with its adapters loaded."""
    from macaron.engines.continuous.load import stream

    engine = stream(model(base), **options)
    try:
        for revision, folder in adapters.items():
            await engine.load(revision, folder)
        yield engine
    finally:
        await engine.close()


async def sample(engine: Any, requests: Sequence[Request]) -> list[Completion]:
    """All requests at once."""
    tickets = [engine.submit(*request) for request in requests]
    return [await ticket.completion() for ticket in tickets]


def local(base: Path, adapters: dict[str, Path]) -> Any:
    """The local engine over the same weights."""
    from macaron.engines.local import LocalEngine

    engine = LocalEngine(model(base), pad_id=0, batch=64)
    for revision, folder in adapters.items():
        engine.load(revision, folder)
    return engine


def one_by_one(engine: Any, requests: Sequence[Request]) -> list[Completion]:
    """What the local engine gives for each request alone."""
    return [engine.sample([p], a, s, seeds=[s.seed])[0][0] for p, a, s in requests]


def same(found: Sequence[Completion], wanted: Sequence[Completion]) -> None:
    """The same tokens and ends, and log-probabilities within 1e-4."""
    import pytest

    for a, b in zip(found, wanted, strict=True):
        assert a.token_ids == b.token_ids and a.stop_reason == b.stop_reason
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)


def save_random(base: Path, folder: Path, seed: int, rank: int = 4, size: float = 0.1) -> Path:
    """A plain LoRA that changes what every linear layer of the base gives; its folder."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base))
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear) and layer is not model.get_output_embeddings():
            shapes = {"A": (rank, layer.in_features), "B": (layer.out_features, rank)}
            for side, shape in shapes.items():
                key = f"base_model.model.{name}.lora_{side}.weight"
                tensors[key] = torch.randn(shape, generator=generator) * size
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": None}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder
