"""The prefix cache: keys and values of token blocks that some row has computed already.

A block is named by the adapter revision and every token up to its end, so that what is found is
what would be computed. The least recently used blocks go when the limit is reached.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macaron.engines.continuous.slots import Slots

Tokens = Sequence[int] | NDArray[np.int64]

BLOCK = 16
"""Tokens of a block."""


@dataclass(frozen=True)
class Block:
    """One block's states, each [layers, heads, tokens, width]."""

    keys: Tensor
    values: Tensor
    adapter: str | None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.keys.nbytes + self.values.nbytes


class PrefixCache:
    """Blocks by name, of bounded size."""

    def __init__(self, limit: int) -> None:
        """
        Args:
            limit: bytes; 0 keeps nothing.
        """
        self.limit = limit
        self.bytes = 0
        self._blocks: OrderedDict[bytes, Block] = OrderedDict()

    def fill(self, slots: Slots, slot: int, blocks: Sequence[bytes]) -> int:
        """Copies the longest known beginning of a row into its slot; its length in tokens."""
        found = list(takewhile(lambda pair: pair[1], ((n, self._blocks.get(n)) for n in blocks)))
        kept = [block for _, block in found if block]
        if kept:
            # Backwards, so that a block never outlives the ones it goes on from.
            for name, _ in reversed(found):
                self._blocks.move_to_end(name)
            keys, values = ([b.keys for b in kept], [b.values for b in kept])
            slots.write(slot, torch.cat(keys, 2), torch.cat(values, 2))
        return BLOCK * len(kept)

    def missing(self, blocks: Sequence[bytes]) -> bytes | None:
        """The first block that is not here; None where all are."""
        return next((name for name in blocks if name not in self._blocks), None)

    def store(self, slots: Slots, slot: int, tokens: Tokens, adapter: str | None) -> None:
        """Keeps the blocks of a row whose tokens are all in its slot."""
        every = list(enumerate(names(tokens, adapter)))
        for index, name in reversed(every[: self.limit // max(1, self._size(slots))]):
            if name in self._blocks:
                self._blocks.move_to_end(name)
                continue
            start = index * BLOCK
            block = Block(*slots.read(slot, start, start + BLOCK), adapter)
            self._blocks[name] = block
            self.bytes += block.size
        while self.bytes > self.limit:
            self.bytes -= self._blocks.popitem(last=False)[1].size

    def _size(self, slots: Slots) -> int:
        return BLOCK * slots.shape.bytes_per_token

    def drop(self, adapter: str) -> None:
        """Forgets an adapter's blocks."""
        for name in [n for n, block in self._blocks.items() if block.adapter == adapter]:
            self.bytes -= self._blocks.pop(name).size


def names(tokens: Tokens, adapter: str | None) -> Iterator[bytes]:
    """The name of each full block of a row: a chain, so that it stands for all before it."""
    text = np.asarray(tokens, dtype=np.int64)
    name = _digest(b"base" if adapter is None else b"adapter " + adapter.encode())
    for start in range(0, len(text) - BLOCK + 1, BLOCK):
        name = _digest(name + text[start : start + BLOCK].tobytes())
        yield name


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
