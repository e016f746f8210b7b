"""A key/value cache whose rows can be multiplied, chosen and dropped while it is being filled.

Buffers are allocated once for the longest sequence; a decode step writes one column in place.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache


class RowLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values, [rows, heads, columns, width], filled up to `length`."""

    is_sliding = False

    def __init__(self, columns: int, room: int) -> None:
        """
        Args:
            columns: tokens there is room for in a row.
            room: rows there is room for.
        """
        super().__init__()
        self.columns, self.room = columns, room
        self.length = self.rows = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocates for the first keys' heads, widths and type."""
        self.rows = key_states.shape[0]
        self.room = max(self.room, self.rows)
        self.keys, self.values = (
            states.new_empty(self.room, states.shape[1], self.columns, states.shape[3])
            for states in (key_states, value_states)
        )
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Appends; returns all so far as views."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, self.length = self.length, self.length + key_states.shape[2]
        self.keys[: self.rows, :, start : self.length] = key_states
        self.values[: self.rows, :, start : self.length] = value_states
        return self.keys[: self.rows, :, : self.length], self.values[: self.rows, :, : self.length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys after the coming queries, and their offset."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Filled columns."""
        return self.length

    def get_max_length(self) -> int:
        """Columns there is room for."""
        return self.columns

    def move(self, target: Tensor, source: Tensor, rows: int) -> None:
        """Copies rows `source` over rows `target`, and keeps the first `rows`."""
        if len(target):
            for states in (self.keys, self.values):
                filled = states[:, :, : self.length]
                filled[target] = filled[source]
        self.rows = rows


class RowCache(Cache):  # type: ignore[misc]
    """A `RowLayer` for each of the model's layers."""

    def __init__(self, layers: int, columns: int, room: int) -> None:
        super().__init__(layers=[RowLayer(columns, room) for _ in range(layers)])

    def move(self, target: Tensor, source: Tensor, rows: int) -> None:
        """`RowLayer.move` in every layer."""
        for layer in self.layers:
            layer.move(target, source, rows)


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


def make_cache(config: Any, columns: int, room: int) -> Cache:
    """A cache for sequences of at most `columns` tokens, and at most `room` of them."""
    text = config.get_text_config()
    if plain_layers(config, columns):
        return RowCache(text.num_hidden_layers, columns, room)
    return DynamicCache(config=config)


def branch_rows(cache: Cache, parents: Tensor) -> Tensor:
    """Gives every child a copy of its parent's row; rows without a child are given up.

    A parent's row is its first child's, where it may stay; only the other rows are copied.

    Args:
        parents: the parent's row of each child.

    Returns:
        For each row that there is now, its child.
    """
    count = len(parents)
    if not isinstance(cache, RowCache):
        cache.reorder_cache(parents)
        return torch.arange(count)
    first = torch.ones(count, dtype=torch.bool)
    ordered, by_parent = parents.sort(stable=True)
    first[by_parent[1:]] = ordered[1:] != ordered[:-1]
    stays = first & (parents < count)
    origin = torch.full((count,), -1)
    origin[parents[stays]] = stays.nonzero()[:, 0]
    holes = (origin < 0).nonzero()[:, 0]
    origin[holes] = (~stays).nonzero()[:, 0]
    cache.move(holes, parents[origin[holes]], count)
    return origin
