"""Bases with four adapters each, and the same adapters merged into four copies, as folders."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from macaron.engines import attention
from macaron.engines.adapters import adapter_state, add_adapter, lora_layers, parameters_of

NANO = Path(__file__).parents[1] / "models/nano"
SPECIALISTS = ("chat", "agent", "coding", "genui")


@dataclass(frozen=True)
class Bundle:
    """One base and what belongs to it."""

    name: str
    base: Path
    rank: int
    folder: Path

    @property
    def adapters(self) -> dict[str, Path]:
        """Revision -> folder."""
        return {name: self.folder / f"adapter-{name}" for name in SPECIALISTS}

    @property
    def merged(self) -> list[Path]:
        """A copy of the base for each adapter, with it in the weights."""
        return [self.folder / f"merged-{name}" for name in SPECIALISTS]


def random_base(folder: Path) -> Path:
    """A Qwen3-like base of 100 million random weights."""
    from transformers import AutoModelForCausalLM, Qwen3Config

    config = Qwen3Config(
        vocab_size=32_000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        head_dim=64,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config.pad_token_id = 0
    model.save_pretrained(folder)
    return folder


def bundle(name: str, base: Path, rank: int, folder: Path) -> tuple[Bundle, Any]:
    """Writes the folders; also gives the PeftModel that they were written from."""
    made = Bundle(name, base, rank, folder)
    model = load(base)
    for seed, specialist in enumerate(SPECIALISTS):
        model = add_adapter(model, specialist, rank, 2 * rank, seed)
        _stir(model, specialist, seed)
        _save(model, specialist, made.adapters[specialist], rank)
    for specialist, target in zip(SPECIALISTS, made.merged, strict=True):
        _merge(model, specialist, target)
    return made, model


def load(folder: Path) -> Any:
    """A transformers model as its users load it."""
    from transformers import AutoModelForCausalLM

    attention.register()
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.no_grad()
def _stir(model: Any, adapter: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in parameters_of(model, adapter).items():
        if "lora_B" in name:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.02)


def _save(model: Any, adapter: str, folder: Path, rank: int) -> None:
    folder.mkdir(parents=True)
    save_file(adapter_state(model, adapter), folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank}
    (folder / "adapter_config.json").write_text(json.dumps(config))


@torch.no_grad()
def _merge(model: Any, adapter: str, target: Path) -> None:
    """Saves the base with one adapter in its weights; the model itself is put back."""
    layers = list(lora_layers(model))
    kept = [layer.base_layer.weight.clone() for layer in layers]
    for layer in layers:
        layer.base_layer.weight += layer.get_delta_weight(adapter)
    base = model.get_base_model()
    state = {k.replace(".base_layer", ""): v for k, v in base.state_dict().items()}
    tied = {"lm_head.weight"} if base.config.tie_word_embeddings else set()
    state = {k: v for k, v in state.items() if ".lora_" not in k and k not in tied}
    target.mkdir(parents=True)
    save_file(state, target / "model.safetensors", metadata={"format": "pt"})
    base.config.save_pretrained(target)
    for layer, weight in zip(layers, kept, strict=True):
        layer.base_layer.weight.copy_(weight)


def prompts(count: int, tokens: int, vocabulary: int) -> list[list[int]]:
    """Random prompts."""
    generator = torch.Generator().manual_seed(count)
    return torch.randint(3, vocabulary, (count, tokens), generator=generator).tolist()


def owners(count: int) -> Sequence[str]:
    """The adapter of each session: all of them in turn."""
    return [SPECIALISTS[n % len(SPECIALISTS)] for n in range(count)]
