"""Keys and values of the rows that are being read or sampled: one slot a row.

A token's column is its place in its row, so that rows of any length lie side by side without
padding on the left. What a slot holds beyond its row's end is finite and never seen.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

STEP = 64
"""Columns are added in multiples of this."""


@dataclass(frozen=True)
class CacheShape:
    """What one token takes in the cache."""

    layers: int
    heads: int
    key_width: int
    value_width: int
    dtype: torch.dtype

    @property
    def bytes_per_token(self) -> int:
        """In all layers."""
        width = self.key_width + self.value_width
        return self.layers * self.heads * width * self.dtype.itemsize


class Slots:
    """Buffers [layers, slots, heads, columns, width] that grow as rows need it."""

    def __init__(self, shape: CacheShape, limit: int = 2**30) -> None:
        """
        Args:
            limit: bytes that the buffers stay within where one row does not need more.
        """
        self.shape, self.limit = shape, limit
        self.count = self.columns = 0
        self.keys, self.values = self._blank(0, 0)

    def _blank(self, count: int, columns: int) -> tuple[Tensor, Tensor]:
        s = self.shape
        # Zeros: a weight of zero must not meet a value that is not a number.
        keys, values = (
            torch.zeros(s.layers, count, s.heads, columns, width, dtype=s.dtype)
            for width in (s.key_width, s.value_width)
        )
        return keys, values

    def size(self, count: int, columns: int) -> int:
        """Bytes of so many rows of so many tokens."""
        return count * _steps(columns) * self.shape.bytes_per_token

    def reserve(self, count: int, columns: int) -> None:
        """Makes room for so many rows of so many tokens; what they hold stays.

        There is room for more where the limit allows it.
        """
        if count <= self.count and columns <= self.columns:
            return
        columns = _steps(columns)
        more = self.count if count <= self.count else max(count, 2 * self.count)
        longer = self.columns if columns <= self.columns else max(columns, self.columns * 3 // 2)
        choices = ((more, _steps(longer)), (more, columns), (count, _steps(longer)))
        kept = [choice for choice in choices if self.size(*choice) <= self.limit]
        self._resize(*(kept[0] if kept else (count, columns)))

    def _resize(self, count: int, columns: int) -> None:
        old = self.keys, self.values
        rows, tokens = min(count, self.count), min(columns, self.columns)
        self.keys, self.values = self._blank(count, columns)
        for new, before in zip((self.keys, self.values), old, strict=True):
            new[:, :rows, :, :tokens] = before[:, :rows, :, :tokens]
        self.count, self.columns = count, columns

    def move(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` tokens of a row over another."""
        for states in (self.keys, self.values):
            states[:, target, :, :length] = states[:, source, :, :length]

    def swap(self, one: int, other: int, length: int) -> None:
        """Exchanges two rows of at most `length` tokens."""
        for states in (self.keys, self.values):
            kept = states[:, one, :, :length].clone()
            states[:, one, :, :length] = states[:, other, :, :length]
            states[:, other, :, :length] = kept

    def wipe(self, slot: int) -> None:
        """Forgets a row whose numbers may not be finite."""
        self.keys[:, slot] = 0
        self.values[:, slot] = 0

    def read(self, slot: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """A copy of some columns, each [layers, heads, columns, width]."""
        return (
            self.keys[:, slot, :, start:stop].clone(),
            self.values[:, slot, :, start:stop].clone(),
        )

    def write(self, slot: int, keys: Tensor, values: Tensor) -> None:
        """Fills a row from its start with what `read` gave."""
        self.keys[:, slot, :, : keys.shape[2]] = keys
        self.values[:, slot, :, : values.shape[2]] = values


def _steps(columns: int) -> int:
    return -(-columns // STEP) * STEP


class SlotView:
    """The slots of one forward pass: where its tokens are written and what they see."""

    def __init__(self, slots: Slots, rows: slice | Tensor, columns: Tensor) -> None:
        """
        Args:
            rows: slots of the pass; a slice is read without a copy.
            columns: of the pass's tokens, [rows, tokens].
        """
        self.slots, self.rows = slots, rows
        self.length = int(columns.max()) + 1
        numbers = torch.arange(slots.count)[rows]
        heads = torch.arange(slots.shape.heads)
        row_heads = numbers[:, None, None] * slots.shape.heads + heads
        self._places = (row_heads * slots.columns + columns[:, :, None]).flatten()

    def put(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Writes one layer's new keys and values; gives all that its rows hold.

        Args:
            keys: [rows * tokens, heads, width]; `values` alike.

        Returns:
            Keys and values, each [rows, heads, length, width].
        """
        found = []
        for states, new in ((self.slots.keys, keys), (self.slots.values, values)):
            width = states.shape[-1]
            flat = states[layer]
            flat.view(-1, width).index_copy_(0, self._places, new.reshape(-1, width))
            found.append(flat[self.rows][:, :, : self.length])
        return found[0], found[1]
