"""LoRA's forward and backward pass in as few operations as it needs.

One autograd function a layer replaces PEFT's chain: the same result up to rounding, and no
gradient for the base. Layers that use more of PEFT than plain LoRA keep PEFT's own pass.

Where the base is small, a forward pass uses W + scale B A, computed into memory of its own when
the passes begin and dropped when they end. The base's weights are never written to.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from macaron.engines.adapters import lora_layers

SUM_LIMIT = 512 * 2**20
"""Bytes that the summed weights may take; a larger base keeps adapter and base apart."""


class _LoraLinear(torch.autograd.Function):
    """y = x (W + scale B A)', over rows; `total` is that sum where there is room for it."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        total: Tensor | None,
        a: Tensor,
        b: Tensor,
        scale: float,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, total, a, b)
        ctx.scale = scale
        return _product(x, weight, total, a, b, scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight, total, a, b = ctx.saved_tensors
        low = grad @ (b * ctx.scale)
        grad_a = low.t() @ x
        grad_b = (grad.t() @ (x @ a.t())).mul_(ctx.scale)
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = grad @ total if total is not None else (grad @ weight).addmm_(low, a)
        return grad_x, None, None, grad_a, grad_b, None


def _product(
    x: Tensor, weight: Tensor, total: Tensor | None, a: Tensor, b: Tensor, scale: float
) -> Tensor:
    if total is not None:
        return x @ total.t()
    return (x @ weight.t()).addmm_(x @ a.t(), b.t(), alpha=scale)


def _forward(layer: Any, x: Tensor) -> Tensor:
    base = layer.base_layer
    active = layer._active_adapter[0]
    if layer._disable_adapters or active not in layer.lora_A:
        return nn.functional.linear(x, base.weight, base.bias)
    a, b = layer.lora_A[active].weight, layer.lora_B[active].weight
    rows = x.reshape(-1, x.shape[-1])
    given = (rows, base.weight, layer.total, a, b, layer.scaling[active])
    y = (_LoraLinear.apply if torch.is_grad_enabled() else _product)(*given)
    if base.bias is not None:
        y = y + base.bias
    return cast(Tensor, y.view(*x.shape[:-1], -1))


def install(model: nn.Module) -> None:
    """Gives every plain LoRA layer the lean pass."""
    for layer in lora_layers(model):
        if _is_plain(layer):
            layer.total = None
            layer.forward = partial(_forward, layer)


def _is_plain(layer: Any) -> bool:
    from peft.tuners.lora.layer import Linear

    return (
        type(layer) is Linear
        and type(layer.base_layer) is nn.Linear
        and not layer.lora_variant
        and not layer.fan_in_fan_out
        and not any(layer.lora_bias.values())
        and all(isinstance(d, nn.Identity) for d in layer.lora_dropout.values())
    )


@contextmanager
def summed(model: nn.Module, adapter: str | None) -> Iterator[None]:
    """Within the block, passes of the adapter use summed weights, where there is room for them.

    The adapter must not change within the block. In 16 bits the sum would round the adapter
    away, so that only fp32 is summed.
    """
    layers = [m for m in lora_layers(model) if adapter in m.lora_A and hasattr(m, "total")]
    weights = [m.base_layer.weight for m in layers]
    size = sum(w.numel() * w.element_size() for w in weights)
    if any(w.dtype != torch.float32 for w in weights) or size > SUM_LIMIT:
        layers = []
    for layer in layers:
        a, b = layer.lora_A[adapter].weight.detach(), layer.lora_B[adapter].weight.detach()
        layer.total = torch.addmm(layer.base_layer.weight, b, a, alpha=layer.scaling[adapter])
    try:
        yield
    finally:
        for layer in layers:
            layer.total = None
