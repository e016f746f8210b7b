"""LoRA's forward and backward pass in as few operations as it needs.

One autograd function a layer replaces PEFT's chain: the same result up to rounding, nothing saved
but the layer's input and the rank-wide product, no gradient for the base. Layers that use more of
PEFT than plain LoRA keep PEFT's own pass.
"""

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from macaron.engines.adapters import lora_layers


class _LoraLinear(torch.autograd.Function):
    """y = x W' + b + scale (x A') B', over rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
        low = x @ a.t()
        ctx.save_for_backward(x, weight, a, b, low)
        ctx.scale = scale
        return torch.addmm(x @ weight.t(), low, b.t(), alpha=scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight, a, b, low = ctx.saved_tensors
        grad_low = grad @ (b * ctx.scale)
        grad_b = (grad.t() @ low) * ctx.scale
        grad_a = grad_low.t() @ x
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.addmm(grad @ weight, grad_low, a)
        return grad_x, None, grad_a, grad_b, None


def _forward(layer: Any, x: Tensor) -> Tensor:
    base = layer.base_layer
    active = layer._active_adapter[0]
    if layer._disable_adapters or active not in layer.lora_A:
        return nn.functional.linear(x, base.weight, base.bias)
    a, b = layer.lora_A[active].weight, layer.lora_B[active].weight
    rows = x.reshape(-1, x.shape[-1])
    scale = layer.scaling[active]
    if torch.is_grad_enabled():
        y = _LoraLinear.apply(rows, base.weight, a, b, scale)  # type: ignore[no-untyped-call]
    else:
        y = torch.addmm(rows @ base.weight.t(), rows @ a.t(), b.t(), alpha=scale)
    if base.bias is not None:
        y = y + base.bias
    return cast(Tensor, y.view(*x.shape[:-1], -1))


def install(model: nn.Module) -> int:
    """Gives every plain LoRA layer the lean pass; how many have it."""
    from peft.tuners.lora.layer import Linear

    plain = [
        layer
        for layer in lora_layers(model)
        if type(layer) is Linear
        and type(layer.base_layer) is nn.Linear
        and not layer.lora_variant
        and not layer.fan_in_fan_out
        and not any(layer.lora_bias.values())
        and all(isinstance(d, nn.Identity) for d in layer.lora_dropout.values())
    ]
    for layer in plain:
        layer.forward = partial(_forward, layer)
    return len(plain)
