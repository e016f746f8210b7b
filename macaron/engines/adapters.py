"""LoRA adapters on one resident base: made, loaded, chosen; the base itself never changes.

Choosing an adapter never touches requires_grad (PEFT's own set_adapter does, and then a step for
one adapter moves another).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from macaron.errors import DigestError

WEIGHTS = "adapter_model.safetensors"


def lora_layers(model: nn.Module) -> Iterator[Any]:
    """The model's layers that carry adapters."""
    from peft.tuners.lora.layer import LoraLayer

    return (m for m in model.modules() if isinstance(m, LoraLayer))


def set_active(layers: Iterable[Any], adapter: str | None) -> None:
    """Chooses the adapter of every later forward pass; None is the bare base.

    Args:
        layers: all of a model's `lora_layers`.
    """
    for layer in layers:
        layer._disable_adapters = adapter is None
        if adapter is not None:
            layer._active_adapter = [adapter]


def adapter_names(model: nn.Module) -> set[str]:
    """The adapters on the model."""
    return {name for layer in lora_layers(model) for name in layer.lora_A}


def parameters_of(model: nn.Module, adapter: str) -> dict[str, nn.Parameter]:
    """The adapter's parameters by name, in the model's order."""
    part = f".{adapter}."
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if part in name and ".lora_" in name
    }


def add_adapter(
    model: nn.Module, adapter: str, rank: int, alpha: int, seed: int, source: str | None = None
) -> nn.Module:
    """A new adapter on every linear layer but the head; the model to use from now on.

    Args:
        model: a transformers causal LM, or the PeftModel around one.
        adapter: its name, not yet taken.
        rank: of every layer; `alpha` scales by alpha / rank.
        seed: of the initial A; B starts at zero, so that the adapter starts as the bare base.
        source: an adapter to start as a copy of, with the same rank and alpha.
    """
    from peft import LoraConfig, PeftModel, get_peft_model

    config = LoraConfig(
        r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(model, PeftModel):
            model.add_adapter(adapter, config)
        else:
            model = get_peft_model(model, config, adapter_name=adapter)
    model.requires_grad_(False).eval()
    if source is not None:
        copy_adapter(model, source, adapter)
    return model


@torch.no_grad()
def copy_adapter(model: nn.Module, source: str, target: str) -> None:
    """Gives `target` the values of `source`.

    Raises:
        DigestError: the two differ in shape.
    """
    values = {_plain(k, source): v for k, v in parameters_of(model, source).items()}
    _assign(parameters_of(model, target), values, target, where=source)


def load_adapter(model: nn.Module, adapter: str, folder: Path) -> nn.Module:
    """The adapter in a folder, under the name given; the model to use from now on.

    Raises:
        DigestError: the folder's tensors aren't exactly those that the adapter has here.
    """
    from peft import LoraConfig
    from safetensors.torch import load_file

    config = LoraConfig.from_pretrained(str(folder))
    model = add_adapter(model, adapter, config.r, config.lora_alpha, seed=0)
    _assign(parameters_of(model, adapter), load_file(folder / WEIGHTS), adapter, str(folder))
    return model


def adapter_state(model: nn.Module, adapter: str) -> dict[str, Tensor]:
    """The adapter's tensors under the names that PEFT saves them by."""
    return {
        _plain(name, adapter): parameter.detach().cpu().contiguous()
        for name, parameter in parameters_of(model, adapter).items()
    }


def _plain(name: str, adapter: str) -> str:
    return name.replace(f".{adapter}.", ".")


def assign_adapter(model: nn.Module, adapter: str, values: Mapping[str, Tensor]) -> None:
    """Gives the adapter the values that `adapter_state` gave.

    Raises:
        DigestError: they aren't exactly those that the adapter has here.
    """
    _assign(parameters_of(model, adapter), values, adapter, where=adapter)


@torch.no_grad()
def _assign(
    parameters: dict[str, nn.Parameter], values: Mapping[str, Tensor], adapter: str, where: str
) -> None:
    targets = {_plain(name, adapter): p for name, p in parameters.items()}
    shapes = {name: tuple(p.shape) for name, p in targets.items()}
    found = {name: tuple(v.shape) for name, v in values.items()}
    if shapes != found or not shapes:
        odd = sorted(shapes.items() ^ found.items())[:2]
        raise DigestError(
            f"adapter does not fit the base: {odd or 'it is empty'}",
            where=where,
            mend="use the base that it was trained on",
        )
    for name, parameter in targets.items():
        parameter.copy_(values[name])
