"""LoRA's forward and backward pass in as few operations as it needs.

One autograd function a layer replaces PEFT's chain: the same result up to rounding, and no
gradient for the base. Layers that use more of PEFT than plain LoRA keep PEFT's own pass.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from macaron.engines.adapters import lora_layers


class _LoraLinear(torch.autograd.Function):
    """y = x W' + scale (x A') B', over rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
        low = x @ a.t()
        ctx.save_for_backward(x, weight, a, b, low)
        ctx.scale = scale
        return (x @ weight.t()).addmm_(low, b.t(), alpha=scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight, a, b, low = ctx.saved_tensors
        back = grad @ (b * ctx.scale)
        grad_b = (grad.t() @ low).mul_(ctx.scale)
        grad_x = (grad @ weight).addmm_(back, a) if ctx.needs_input_grad[0] else None
        return grad_x, None, back.t() @ x, grad_b, None


def _forward(layer: Any, x: Tensor) -> Tensor:
    base = layer.base_layer
    active = layer._active_adapter[0]
    if layer._disable_adapters or active not in layer.lora_A:
        return nn.functional.linear(x, base.weight, base.bias)
    a, b = layer.lora_A[active].weight, layer.lora_B[active].weight
    rows = x.reshape(-1, x.shape[-1])
    y: Tensor = _LoraLinear.apply(rows, base.weight, a, b, layer.scaling[active])  # type: ignore[no-untyped-call]
    if base.bias is not None:
        y = y + base.bias
    return y.view(*x.shape[:-1], -1)


def install(model: nn.Module) -> None:
    """Gives every plain LoRA layer the lean pass."""
    for layer in lora_layers(model):
        if is_plain(layer):
            layer.forward = partial(_forward, layer)


def is_plain(layer: Any) -> bool:
    """Whether all adapters of a layer are LoRA and nothing more, on an ordinary linear layer."""
    from peft.tuners.lora.layer import Linear

    return (
        type(layer) is Linear
        and type(layer.base_layer) is nn.Linear
        and not layer.lora_variant
        and not layer.fan_in_fan_out
        and not any(layer.lora_bias.values())
        and all(isinstance(d, nn.Identity) for d in layer.lora_dropout.values())
        # On a 16-bit base PEFT keeps adapters in fp32 and casts between the two.
        and all(a.weight.dtype == layer.base_layer.weight.dtype for a in layer.lora_A.values())
    )
