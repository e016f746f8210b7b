"""All loaded adapters beside the base's weights, applied together: each row gets its own.

For linear layers that read one input, y = x W' + (x A') B', where A and B stack the adapters' ranks
and a row's x A' is 0 but on the ranks of its own adapter. The base's weights exist once and
are never written to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Parts = Mapping[str, tuple[Tensor, Tensor]]
"""One adapter: layer -> (A, scale times B), [rank, inputs] and [outputs, rank]."""


class Group:
    """Linear layers that read one input, laid side by side."""

    def __init__(self, layers: Mapping[str, nn.Linear]) -> None:
        """
        Args:
            layers: name -> layer; their weights become views of one tensor.
        """
        self.names = list(layers)
        parts = list(layers.values())
        self.sizes = [p.out_features for p in parts]
        self.weight: Tensor = parts[0].weight.detach()
        self.bias: Tensor | None = parts[0].bias
        if len(parts) > 1:
            self.weight = torch.cat([p.weight.detach() for p in parts])
            self.bias = None if parts[0].bias is None else torch.cat([p.bias for p in parts])
            for layer, rows in zip(parts, torch.split(self.weight, self.sizes), strict=True):
                layer.weight = nn.Parameter(rows, requires_grad=False)
        self.low = self.weight.new_empty(len(parts), 0, self.weight.shape[1])
        """Every layer's A of every adapter, [layers, ranks, inputs]."""
        self.spread = [self.weight.new_empty(0, size) for size in self.sizes]
        """Every layer's scaled B of every adapter, [ranks, outputs]."""

    def add(self, adapter: Parts) -> None:
        """Puts an adapter's ranks behind the others'."""
        found = [adapter[name] for name in self.names]
        new = torch.stack([a for a, _ in found]).to(self.low.dtype)
        self.low = torch.cat([self.low, new], 1)
        self.spread = [
            torch.cat([old, b.t().to(old.dtype)])
            for old, (_, b) in zip(self.spread, found, strict=True)
        ]

    def remove(self, ranks: slice) -> None:
        """Takes some ranks away."""
        self.low = torch.cat([self.low[:, : ranks.start], self.low[:, ranks.stop :]], 1)
        self.spread = [torch.cat([s[: ranks.start], s[ranks.stop :]]) for s in self.spread]

    def __call__(self, x: Tensor, owned: "Owned", residual: Tensor | None = None) -> Tensor:
        """Over rows: [rows, inputs] -> [rows, all outputs].

        Args:
            owned: which adapter each row has.
            residual: added to the result.
        """
        y = self._base(x, residual)
        parts = torch.split(y, self.sizes, 1)
        for rows, ranks in owned.spans:
            for part, a, b in zip(parts, self.low, self.spread, strict=True):
                part[rows].addmm_(x[rows] @ a[ranks].t(), b[ranks])
        if owned.foreign is not None:
            low = x @ self.low.view(-1, x.shape[1]).t()
            low = low.view(len(x), len(parts), -1).masked_fill_(owned.foreign[:, None], 0)
            for index, (part, b) in enumerate(zip(parts, self.spread, strict=True)):
                part.addmm_(low[:, index], b)
        return y

    def _base(self, x: Tensor, residual: Tensor | None) -> Tensor:
        if residual is None:
            y: Tensor = nn.functional.linear(x, self.weight, self.bias)
            return y
        y = torch.addmm(residual, x, self.weight.t())
        return y if self.bias is None else y.add_(self.bias)

    def layer(self, index: int, x: Tensor, owned: "Owned") -> Tensor:
        """One layer of the group alone, over rows."""
        start = sum(self.sizes[:index])
        rows = slice(start, start + self.sizes[index])
        bias = None if self.bias is None else self.bias[rows]
        y: Tensor = nn.functional.linear(x, self.weight[rows], bias)
        a, b = self.low[index], self.spread[index]
        for part, ranks in owned.spans:
            y[part].addmm_(x[part] @ a[ranks].t(), b[ranks])
        if owned.foreign is not None:
            y.addmm_((x @ a.t()).masked_fill_(owned.foreign, 0), b)
        return y


@dataclass(frozen=True)
class Owned:
    """Which adapter each token of a pass has, in the cheaper of two forms; none: the bare base."""

    spans: Sequence[tuple[slice, slice]] = ()
    """Tokens that lie together, and their adapter's ranks."""
    foreign: Tensor | None = None
    """Ranks of other adapters than the token's, [tokens, ranks]."""
