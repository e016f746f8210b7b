"""A key/value cache whose rows can be multiplied, chosen and dropped while it is being filled.

Buffers are allocated once for the longest sequence; a decode step writes one column in place.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache


class RowLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values, [rows, heads, capacity, width], filled up to `length`."""

    is_sliding = False

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity, self.length = capacity, 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocates for the first keys' rows, heads, widths and type."""
        self.keys = self._room(key_states, key_states.shape[0])
        self.values = self._room(value_states, value_states.shape[0])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Appends; returns all so far as views."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, self.length = self.length, self.length + key_states.shape[2]
        self.keys[:, :, start : self.length] = key_states
        self.values[:, :, start : self.length] = value_states
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys after the coming queries, and their offset."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Filled columns."""
        return self.length

    def get_max_length(self) -> int:
        """Columns there is room for."""
        return self.capacity

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Makes row i a copy of the old row beam_idx[i]; rows can grow and shrink in number."""
        self.keys, self.values = self._pick(self.keys, beam_idx), self._pick(self.values, beam_idx)

    def drop(self, holes: Tensor, last: Tensor, rows: int) -> None:
        """Keeps `rows` rows: those in `last` are moved to `holes`, what lies behind is given up."""
        for states in (self.keys, self.values):
            filled = states[:, :, : self.length]
            filled[holes] = filled[last]
        self.keys, self.values = self.keys[:rows], self.values[:rows]

    def _pick(self, old: Tensor, index: Tensor) -> Tensor:
        new = self._room(old, len(index))
        torch.index_select(old[:, :, : self.length], 0, index, out=new[:, :, : self.length])
        return new

    def _room(self, like: Tensor, rows: int) -> Tensor:
        return like.new_empty(rows, like.shape[1], self.capacity, like.shape[3])


class RowCache(Cache):  # type: ignore[misc]
    """A `RowLayer` for each of the model's layers."""

    def __init__(self, layers: int, capacity: int) -> None:
        super().__init__(layers=[RowLayer(capacity) for _ in range(layers)])

    def drop(self, holes: Tensor, last: Tensor, rows: int) -> None:
        """`RowLayer.drop` in every layer."""
        for layer in self.layers:
            layer.drop(holes, last, rows)


def plain_layers(config: Any, length: int) -> bool:
    """Whether every layer attends to all of a sequence of this length.

    False for sliding windows shorter than the sequence, for chunked and for linear attention;
    those need the cache and the masks that transformers makes.
    """
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    window = getattr(text, "sliding_window", None)
    if "sliding_attention" in kinds or (window and not hasattr(text, "layer_types")):
        kinds.discard("sliding_attention")
        if window and window < length:
            return False
    shared = getattr(text, "num_kv_shared_layers", 0)
    return kinds <= {"full_attention"} and not shared


def make_cache(config: Any, capacity: int) -> Cache:
    """A cache for sequences of at most `capacity` tokens; `reorder_cache` picks its rows."""
    text = config.get_text_config()
    if plain_layers(config, capacity):
        return RowCache(text.num_hidden_layers, capacity)
    return DynamicCache(config=config)


def drop_rows(cache: Cache, going: Tensor) -> Tensor:
    """Gives up the rows of a cache that aren't in `going`; few rows are moved, not all copied.

    Args:
        going: ascending row numbers to keep.

    Returns:
        For each row that there is now, the number it had.
    """
    rows = len(going)
    kept = going[going < rows]
    last = going[len(kept) :]
    origin = torch.arange(rows)
    free = torch.ones(rows, dtype=torch.bool)
    free[kept] = False
    holes = free.nonzero()[:, 0]
    origin[holes] = last
    if isinstance(cache, RowCache):
        cache.drop(holes, last, rows)
    else:
        cache.reorder_cache(origin)
    return origin
