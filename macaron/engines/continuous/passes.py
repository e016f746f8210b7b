"""A forward pass over slots, and how the model's own modules make it.

A pass reads tokens of any rows, each with its own adapter, and never changes what another row sees.
"""

from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from macaron.engines.continuous.bank import Bank
from macaron.engines.continuous.feed import Feed
from macaron.engines.continuous.group import Owned
from macaron.engines.continuous.slots import SlotView


class Passes(Protocol):
    """Something that computes logits."""

    def logits(self, feed: Feed) -> Tensor:
        """Of the wanted places, [wanted, vocabulary]."""
        ...


class _Layer(CacheLayerMixin):  # type: ignore[misc]
    """One layer of the slots, as transformers' attention wants it."""

    is_sliding = False

    def __init__(self, view: SlotView, layer: int) -> None:
        super().__init__()
        self.is_initialized = True
        self.view, self.layer = view, layer

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """The slots are there already."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Writes [rows, heads, tokens, width]; returns all that the rows hold."""
        keys, values = (
            states.transpose(1, 2).reshape(-1, states.shape[1], states.shape[3])
            for states in (key_states, value_states)
        )
        return self.view.put(self.layer, keys, values)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys after the coming queries, and their offset."""
        return self.view.length, 0

    def get_seq_length(self) -> int:
        """Positions are given with every pass."""
        return 0

    def get_max_length(self) -> int:
        """Columns there is room for."""
        return self.view.slots.columns


class ModelPasses:
    """The model's own modules, with the bank's adapters in their linear layers."""

    def __init__(self, causal: Any, bank: Bank) -> None:
        """
        Args:
            causal: a transformers causal LM that the bank is installed in.
        """
        self.causal, self.bank = causal, bank

    def logits(self, feed: Feed) -> Tensor:
        """As `Passes`."""
        tokens = feed.ids.shape[1]
        kept, place = torch.unique(feed.wanted % tokens, return_inverse=True)
        cache = Cache(layers=[_Layer(feed.view, n) for n in range(feed.view.slots.shape.layers)])
        self.bank.owned = feed.owned
        try:
            found: Tensor = self.causal(
                input_ids=feed.ids,
                attention_mask=feed.mask,
                position_ids=feed.positions,
                cache=cache,
                use_cache=True,
                # One pass may want nothing: a part of a long prompt.
                logits_to_keep=kept if len(kept) else 1,
            ).logits
        finally:
            self.bank.owned = Owned()
        return found[feed.wanted // tokens, place]
