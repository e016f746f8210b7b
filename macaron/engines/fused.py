"""Building blocks of the lean decoder: linear layers with all that touches them, in one function.

A fused weight is (W + scale B A), next to those of the layers that read the same input, times the
norm before them. It is computed into memory of its own; the base's weights are never written to.
Gradients are those of A and B, exactly, and of the input.
"""

import math
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
    """All parts' A, with the norm's factor as in `weight`, [ranks, inputs]."""
    spread: Tensor
    """All parts' scale B, each in its own rows and columns, [outputs, ranks]."""
    norm: Tensor | None
    """Factor of the normalised input, already in `weight`; None without a norm."""
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
    factor = None if norm is None else norm_weight(norm)
    if factor is not None:
        fused.mul_(factor)
        low = low * factor
    return Fused(
        weight=fused,
        bias=None if bases[0].bias is None else torch.cat([base.bias for base in bases]),
        parts=parts,
        low=low,
        spread=spread,
        norm=factor,
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
    """x / norm(x) over the last axis, and 1 / norm(x); rms(x) is that norm over sqrt(width)."""
    inverse = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    inverse = inverse.square_().add_(eps * x.shape[-1]).rsqrt_()
    return x * inverse, inverse


def normalised_back(grad: Tensor, unit: Tensor, inverse: Tensor) -> Tensor:
    """The gradient of x, given that of unit = x / norm(x); `grad` is used up."""
    along = (grad * unit).sum(-1, keepdim=True)
    return grad.addcmul_(unit, along, value=-1).mul_(inverse)


def norm_weight(norm: Any) -> Tensor:
    """The factor of x / norm(x) that makes it the module's RMS norm."""
    weight: Tensor = norm.weight
    return weight * math.sqrt(weight.shape[-1])


def _linear(fused: Fused, unit: Tensor, residual: Tensor | None) -> Tensor:
    if residual is None:
        plain: Tensor = nn.functional.linear(unit, fused.weight, fused.bias)
        return plain
    y = torch.addmm(residual, unit, fused.weight.t())
    return y if fused.bias is None else y.add_(fused.bias)


class _FusedLinear(torch.autograd.Function):
    """`Fused` with gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor | None, fused: Fused, *trained: Tensor
    ) -> Tensor:
        unit, inverse = normalised(x, fused.eps) if fused.norm is not None else (x, None)
        ctx.save_for_backward(unit, inverse)
        ctx.fused = fused
        return _linear(fused, unit, residual)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        fused: Fused = ctx.fused
        unit, inverse = ctx.saved_tensors
        trained = _lora_back(fused, grad, unit)
        back = None
        if ctx.needs_input_grad[0]:
            back = grad @ fused.weight
            if fused.norm is not None:
                back = normalised_back(back, unit, inverse)
        return back, grad if ctx.needs_input_grad[1] else None, None, *trained


def _lora_back(fused: Fused, grad: Tensor, unit: Tensor) -> list[Tensor]:
    """The gradients of every part's A and B."""
    if not fused.parts:
        return []
    of_low = (grad @ fused.spread).t() @ unit
    if fused.norm is not None:
        of_low.mul_(fused.norm)
    of_spread = (unit @ fused.low.t()).t() @ grad
    found: list[Tensor] = []
    for part in fused.parts:
        of_b = of_spread[part.ranks, part.rows].t() * part.scale
        found += [of_low[part.ranks], of_b]
    return found


@dataclass(frozen=True)
class Heads:
    """How one layer's queries, keys and values lie side by side, and what is done to them."""

    queries: int
    keys: int
    """Of the keys' heads; the values have as many."""
    norm: Tensor | None
    """Factor of the normalised queries and keys, [query and key heads, width]; None: no norm."""
    eps: float

    def __call__(self, every: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Norms and rotary positions.

        Args:
            every: [rows, all heads, width].
            cos: [rows, 1, width]; `sin` alike.

        Returns:
            Queries, keys and values, each [rows, heads, width].
        """
        if torch.is_grad_enabled():
            found: tuple[Tensor, Tensor, Tensor] = _Heads.apply(every, self, cos, sin)  # type: ignore[no-untyped-call]
            return found
        return self.split(every, cos, sin)[0]

    def split(
        self, every: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor] | None]:
        """The result; where there is a norm, the normalised heads and 1 / norm."""
        rotated = self.queries + self.keys
        turned, kept = every[:, :rotated], None
        if self.norm is not None:
            kept = normalised(turned, self.eps)
            turned = kept[0] * self.norm
        turned = _turn(turned, cos, sin, 1, torch.empty_like(turned))
        return (turned[:, : self.queries], turned[:, self.queries :], every[:, rotated:]), kept


class _Heads(torch.autograd.Function):
    """`Heads` with the gradient of what it is given."""

    @staticmethod
    def forward(
        ctx: Any, every: Tensor, heads: Heads, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        (queries, keys, values), kept = heads.split(every, cos, sin)
        ctx.save_for_backward(cos, sin, *(kept or ()))
        ctx.heads, ctx.shape = heads, every.shape
        return queries, keys, values.contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin, *kept = ctx.saved_tensors
        heads: Heads = ctx.heads
        back = grads[0].new_empty(ctx.shape)
        rotated = heads.queries + heads.keys
        turned = back[:, :rotated]
        _turn(grads[0], cos, sin, -1, turned[:, : heads.queries])
        _turn(grads[1], cos, sin, -1, turned[:, heads.queries :])
        back[:, rotated:] = grads[2]
        if heads.norm is not None:
            normalised_back(turned.mul_(heads.norm), *kept)
        return back, None, None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor, way: int, out: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    torch.mul(first, cos[..., :half], out=out[..., :half])
    torch.mul(second, cos[..., half:], out=out[..., half:])
    out[..., :half].addcmul_(second, sin[..., :half], value=-way)
    out[..., half:].addcmul_(first, sin[..., half:], value=way)
    return out


def gated(both: Tensor) -> Tensor:
    """silu(gate) * up, from [rows, gate and up]."""
    if torch.is_grad_enabled():
        product: Tensor = _Gated.apply(both)  # type: ignore[no-untyped-call]
        return product
    gate, up = both.chunk(2, -1)
    return nn.functional.silu(gate).mul_(up)


class _Gated(torch.autograd.Function):
    """`gated` with its gradient."""

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
