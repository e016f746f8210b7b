"""What one forward pass reads: some tokens of some rows, padded on the right."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from macaron.engines.attention import additive
from macaron.engines.continuous.bank import Bank
from macaron.engines.continuous.group import Owned
from macaron.engines.continuous.row import Row, Sampling
from macaron.engines.continuous.slots import Slots, SlotView


@dataclass(frozen=True)
class Feed:
    """The input of a pass."""

    ids: Tensor
    """[rows, tokens]."""
    positions: Tensor
    """[rows, tokens]."""
    mask: Tensor
    """Additive, [rows, 1, tokens, columns]."""
    view: SlotView
    owned: Owned
    wanted: Tensor
    """Places among rows * tokens whose logits are needed."""


def decode_feed(rows: Sequence[Sampling], slots: Slots, bank: Bank) -> Feed:
    """The last sampled token of each row; the rows lie in the first slots, in order."""
    columns = torch.tensor([[row.filled] for row in rows])
    view = SlotView(slots, slice(0, len(rows)), columns)
    seen = torch.arange(view.length) <= columns[:, :, None]
    return Feed(
        ids=torch.tensor([[row.tokens[-1]] for row in rows]),
        positions=columns,
        mask=additive(seen[:, None], slots.shape.dtype),
        view=view,
        owned=bank.owned_by([row.adapter for row in rows], 1),
        wanted=torch.arange(len(rows)),
    )


def prefill_feed(rows: Sequence[Row], tokens: int, slots: Slots, bank: Bank) -> Feed:
    """The next tokens of each row's prompt, at most `tokens`."""
    shape = (len(rows), tokens)
    ids, positions, lows = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    columns = np.array([[row.filled] for row in rows]) + np.arange(tokens)
    wanted = []
    for index, row in enumerate(rows):
        part = slice(row.filled, row.filled + tokens)
        count = len(row.ids[part])
        ids[index, :count] = row.ids[part]
        positions[index, :count] = row.positions[part]
        lows[index, :count] = row.lows[part]
        first = max(row.prompt - 1 - row.filled, 0)
        wanted += [index * tokens + place for place in range(first, count)]
    where = torch.tensor([row.slot for row in rows])
    view = SlotView(slots, where, torch.from_numpy(columns))
    return Feed(
        ids=torch.from_numpy(ids),
        positions=torch.from_numpy(positions),
        mask=additive(_seen(rows, columns, lows, view.length)[:, None], slots.shape.dtype),
        view=view,
        owned=bank.owned_by([row.adapter for row in rows], tokens),
        wanted=torch.tensor(wanted, dtype=torch.long),
    )


def _seen(rows: Sequence[Row], columns: np.ndarray, lows: np.ndarray, length: int) -> Tensor:
    """Which columns each token sees: those before it, of its prompt and of its own option."""
    every = np.arange(length)
    seen = every <= columns[:, :, None]
    if lows.any():
        prompts = np.array([row.prompt for row in rows])[:, None, None]
        seen &= (every < prompts) | (every >= lows[:, :, None])
    return torch.from_numpy(seen)
