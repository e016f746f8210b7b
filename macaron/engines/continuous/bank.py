"""All loaded adapters beside the base's weights, applied together: each row gets its own.

For linear layers that read one input, y = x W' + ((x A') * own) B', where A and B stack the
adapters' ranks and `* own` keeps the ranks of the row's adapter. The base's weights exist once and
are never written to.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

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

    def __call__(self, x: Tensor, foreign: Tensor | None, residual: Tensor | None = None) -> Tensor:
        """Over rows: [rows, inputs] -> [rows, all outputs].

        Args:
            foreign: ranks that aren't the row's, [rows, 1, ranks]; None: no row has an adapter.
            residual: added to the result.
        """
        y = self._base(x, residual)
        if foreign is not None:
            low = x @ self.low.view(-1, x.shape[1]).t()
            low = low.view(len(x), len(self.sizes), -1).masked_fill_(foreign, 0)
            start = 0
            for index, (size, spread) in enumerate(zip(self.sizes, self.spread, strict=True)):
                y[:, start : (start := start + size)].addmm_(low[:, index], spread)
        return y

    def _base(self, x: Tensor, residual: Tensor | None) -> Tensor:
        if residual is None:
            y: Tensor = nn.functional.linear(x, self.weight, self.bias)
            return y
        y = torch.addmm(residual, x, self.weight.t())
        return y if self.bias is None else y.add_(self.bias)

    def layer(self, index: int, x: Tensor, foreign: Tensor | None) -> Tensor:
        """One layer of the group alone, over rows."""
        start = sum(self.sizes[:index])
        rows = slice(start, start + self.sizes[index])
        bias = None if self.bias is None else self.bias[rows]
        y: Tensor = nn.functional.linear(x, self.weight[rows], bias)
        if foreign is not None:
            y.addmm_((x @ self.low[index].t()).masked_fill_(foreign[:, 0], 0), self.spread[index])
        return y


class Bank:
    """The groups of a model, and which ranks are whose."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        self.ranks: dict[str, slice] = {}
        """Adapter revision -> its ranks, in every group."""
        self.foreign: Tensor | None = None
        """Of the pass that is running, for the model's own modules."""

    @property
    def size(self) -> int:
        """Ranks of all adapters."""
        return max((r.stop for r in self.ranks.values()), default=0)

    def add(self, revision: str, adapter: Parts) -> None:
        """Loads an adapter; its tensors are copied."""
        rank = len(next(iter(adapter.values()))[0])
        for group in self.groups:
            group.add(adapter)
        self.ranks[revision] = slice(self.size, self.size + rank)

    def remove(self, revision: str) -> None:
        """Forgets an adapter."""
        gone = self.ranks.pop(revision)
        for group in self.groups:
            group.remove(gone)
        rank = gone.stop - gone.start
        for name, ranks in self.ranks.items():
            if ranks.start > gone.start:
                self.ranks[name] = slice(ranks.start - rank, ranks.stop - rank)

    def foreign_ranks(self, adapters: Sequence[str | None], tokens: int) -> Tensor | None:
        """Each token's ranks of other adapters.

        Args:
            adapters: of each row.
            tokens: a row has.

        Returns:
            [rows * tokens, 1, ranks]; None where no row has an adapter.
        """
        if not any(a is not None for a in adapters):
            return None
        foreign = torch.ones(len(adapters), self.size, dtype=torch.bool)
        for row, adapter in enumerate(adapters):
            if adapter is not None:
                foreign[row, self.ranks[adapter]] = False
        return (foreign.repeat_interleave(tokens, 0) if tokens > 1 else foreign)[:, None]

    def install(self, modules: Mapping[str, nn.Linear]) -> None:
        """Gives the model's own modules the adapters of a pass."""
        for group in self.groups:
            for index, name in enumerate(group.names):
                layer: Any = modules[name]
                layer.forward = partial(self._forward, group, index)

    def uninstall(self, modules: Mapping[str, nn.Linear]) -> None:
        """Undoes `install`."""
        for layer in modules.values():
            layer.__dict__.pop("forward", None)

    def _forward(self, group: Group, index: int, x: Tensor) -> Tensor:
        y = group.layer(index, x.reshape(-1, x.shape[-1]), self.foreign)
        return y.view(*x.shape[:-1], -1)

    @property
    def tensors(self) -> list[Tensor]:
        """The adapters' tensors."""
        return [t for g in self.groups for t in (g.low, *g.spread)]
