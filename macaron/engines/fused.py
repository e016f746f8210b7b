"""Building blocks of the lean decoder: linear layers with all that touches them, in one function.

A fused weight is (W + scale B A), next to those of the layers that read the same input, times the
norm before them. It is computed into memory of its own; the base's weights are never written to.
Gradients are those of A and B, exactly, and of the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class LoraPart:
    """One layer's adapter within a fused weight."""

    rows: slice
    """Its outputs."""
    ranks: slice
    """Its place among all parts' ranks."""
    a: Tensor
    b: Tensor
    scale: float


@dataclass(frozen=True)
class Fused:
    """Linear layers that read one input, with the RMS norm before them."""

    weight: Tensor
    """[outputs, inputs]."""
    bias: Tensor | None
    parts: tuple[LoraPart, ...]
    low: Tensor
    """All parts' A, [ranks, inputs]."""
    spread: Tensor
    """All parts' scale B, each in its own rows and columns, [outputs, ranks]."""
    norm: Tensor | None
    """The norm's weight, already in `weight`; None without a norm."""
    eps: float

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Over rows: [rows, inputs] -> [rows, outputs]; adds `residual` where it is given."""
        if torch.is_grad_enabled():
            trained = [t for part in self.parts for t in (part.a, part.b)]
            y: Tensor = _FusedLinear.apply(x, residual, self, *trained)  # type: ignore[no-untyped-call]
            return y
        return _linear(self, normalised(x, self.eps)[0] if self.norm is not None else x, residual)


@torch.no_grad()
def fuse(layers: Sequence[nn.Module], adapter: str | None, norm: Any = None) -> Fused:
    """Fuses layers that read one input.

    Args:
        layers: linear layers, with or without adapters; none may be of another kind.
        adapter: the adapter in force; None is the bare base.
        norm: the RMS norm module before them.
    """
    bases: list[Any] = [getattr(layer, "base_layer", layer) for layer in layers]
    fused = torch.cat([base.weight for base in bases])
    parts = _parts(layers, bases, adapter)
    low = torch.cat([p.a for p in parts]) if parts else fused.new_empty(0, fused.shape[1])
    spread = fused.new_zeros(len(fused), len(low))
    for part in parts:
        spread[part.rows, part.ranks] = part.b * part.scale
        fused[part.rows].addmm_(part.b, part.a, alpha=part.scale)
    if norm is not None:
        fused.mul_(norm.weight)
    return Fused(
        weight=fused,
        bias=None if bases[0].bias is None else torch.cat([base.bias for base in bases]),
        parts=parts,
        low=low,
        spread=spread,
        norm=None if norm is None else norm.weight,
        eps=0.0 if norm is None else epsilon(norm),
    )


def _parts(
    layers: Sequence[Any], bases: Sequence[Any], adapter: str | None
) -> tuple[LoraPart, ...]:
    parts = []
    row = rank = 0
    for layer, base in zip(layers, bases, strict=True):
        rows = slice(row, row := row + len(base.weight))
        if adapter is not None and adapter in getattr(layer, "lora_A", {}):
            a, b = layer.lora_A[adapter].weight, layer.lora_B[adapter].weight
            ranks = slice(rank, rank := rank + len(a))
            parts.append(LoraPart(rows, ranks, a, b, layer.scaling[adapter]))
    return tuple(parts)


def epsilon(norm: Any) -> float:
    """The norm's epsilon, by either of its names."""
    return float(norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps)


def normalised(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x / rms(x) over the last axis, and 1 / rms(x)."""
    inverse = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    inverse = inverse.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    return x * inverse, inverse


def normalised_back(grad: Tensor, x: Tensor, inverse: Tensor) -> Tensor:
    """The gradient of x, given that of x / rms(x); `grad` is used up."""
    unit = x * inverse
    along = (grad * unit).sum(-1, keepdim=True).div_(x.shape[-1])
    return grad.addcmul_(unit, along, value=-1).mul_(inverse)


def _linear(fused: Fused, unit: Tensor, residual: Tensor | None) -> Tensor:
    if residual is not None:
        y = torch.addmm(residual, unit, fused.weight.t())
    else:
        y = unit @ fused.weight.t()
    return y if fused.bias is None else y.add_(fused.bias)


class _FusedLinear(torch.autograd.Function):
    """`Fused` with gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor | None, fused: Fused, *trained: Tensor
    ) -> Tensor:
        unit, inverse = normalised(x, fused.eps) if fused.norm is not None else (x, None)
        ctx.save_for_backward(x, inverse)
        ctx.fused = fused
        return _linear(fused, unit, residual)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        fused: Fused = ctx.fused
        x, inverse = ctx.saved_tensors
        seen = x if fused.norm is None else (x * inverse).mul_(fused.norm)
        trained = _lora_back(fused, grad, seen)
        back = None
        if ctx.needs_input_grad[0]:
            back = grad @ fused.weight
            if fused.norm is not None:
                back = normalised_back(back, x, inverse)
        return back, grad if ctx.needs_input_grad[1] else None, None, *trained


def _lora_back(fused: Fused, grad: Tensor, seen: Tensor) -> list[Tensor]:
    """The gradients of every part's A and B."""
    if not fused.parts:
        return []
    of_low = (grad @ fused.spread).t() @ seen
    of_spread = (seen @ fused.low.t()).t() @ grad
    found: list[Tensor] = []
    for part in fused.parts:
        of_b = of_spread[part.ranks, part.rows].t() * part.scale
        found += [of_low[part.ranks], of_b]
    return found


class HeadRope(torch.autograd.Function):
    """Rotary positions, after an RMS norm of every head where the model has one.

    heads [rows, heads, width], weight [heads, width] or None, cos and sin [rows, 1, width] ->
    [rows, heads, width]. Without a norm the weight is a plain factor.
    """

    @staticmethod
    def forward(
        ctx: Any, heads: Tensor, weight: Tensor | None, eps: float, cos: Tensor, sin: Tensor
    ) -> Tensor:
        inverse = None
        turned = heads
        if weight is not None:
            unit, inverse = normalised(heads, eps)
            turned = unit.mul_(weight)
        ctx.save_for_backward(heads, inverse, weight, cos, sin)
        return _turn(turned, cos, sin, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        heads, inverse, weight, cos, sin = ctx.saved_tensors
        back = _turn(grads[0], cos, sin, -1)
        if weight is not None:
            back = normalised_back(back.mul_(weight), heads, inverse)
        return back, None, None, None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor, way: int) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.empty_like(x)
    first, second = x[..., :half], x[..., half:]
    torch.mul(first, cos[..., :half], out=turned[..., :half])
    torch.mul(second, cos[..., half:], out=turned[..., half:])
    turned[..., :half].addcmul_(second, sin[..., :half], value=-way)
    turned[..., half:].addcmul_(first, sin[..., half:], value=way)
    return turned


class Gated(torch.autograd.Function):
    """silu(gate) * up, from [rows, gate and up]."""

    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        gate, up = both.chunk(2, -1)
        opened = nn.functional.silu(gate)
        ctx.save_for_backward(both, opened)
        return opened * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        both, opened = ctx.saved_tensors
        gate, up = both.chunk(2, -1)
        back = torch.empty_like(both)
        of_gate, of_up = back.chunk(2, -1)
        torch.mul(grad, opened, out=of_up)
        torch.ops.aten.silu_backward.grad_input(grad * up, gate, grad_input=of_gate)
        return (back,)
