"""All loaded adapters on one model: which of the groups' ranks are whose, and who uses which.

Loading and unloading change the groups' stacks alone; the base's weights are never written.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from macaron.engines.continuous.group import Group, Owned, Parts

SPAN = 32
"""Tokens of one adapter that lie together from which on they are computed on their own."""


class Bank:
    """The groups of a model, and which ranks are whose."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        self.ranks: dict[str, slice] = {}
        """Adapter revision -> its ranks, in every group."""
        self.owned = Owned()
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

    def owned_by(self, adapters: Sequence[str | None], tokens: int) -> Owned:
        """Which ranks the tokens of a pass use.

        Args:
            adapters: of each row.
            tokens: a row has.
        """
        runs = [(name, len(list(run))) for name, run in groupby(adapters)]
        if len(runs) == 1 or len(adapters) * tokens >= SPAN * len(runs):
            return Owned(spans=self._spans(runs, tokens))
        foreign = torch.ones(len(adapters), self.size, dtype=torch.bool)
        for row, adapter in enumerate(adapters):
            if adapter is not None:
                foreign[row, self.ranks[adapter]] = False
        return Owned(foreign=foreign.repeat_interleave(tokens, 0) if tokens > 1 else foreign)

    def _spans(
        self, runs: Sequence[tuple[str | None, int]], tokens: int
    ) -> list[tuple[slice, slice]]:
        spans, start = [], 0
        for adapter, rows in runs:
            end = start + rows * tokens
            if adapter is not None:
                spans.append((slice(start, end), self.ranks[adapter]))
            start = end
        return spans

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
        y = group.layer(index, x.reshape(-1, x.shape[-1]), self.owned)
        return y.view(*x.shape[:-1], -1)

    @property
    def tensors(self) -> list[Tensor]:
        """The adapters' tensors."""
        return [t for g in self.groups for t in (g.low, *g.spread)]
