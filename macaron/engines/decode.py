"""Rows in the middle of a generation: their cache, masks and positions.

Prompts are padded on the left, so that every row's next token lies in the same column.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from macaron.engines.attention import causal_mask
from macaron.engines.cache import branch_rows, make_cache, plain_layers
from macaron.engines.lean import LeanDecoder
from macaron.errors import ConfigError


class Decode:
    """Rows that grow by the same number of tokens each time."""

    def __init__(
        self, causal: Any, lean: LeanDecoder | None, valid: Tensor, columns: int, room: int
    ) -> None:
        """
        Args:
            causal: the model.
            lean: its lean decoder, where there is one.
            valid: which of the prompts' tokens are real, [rows, tokens].
            columns: the most tokens a row will have.
            room: the most rows there will be.
        """
        self.causal = causal
        self.cache = make_cache(causal.config, columns, room)
        self.plain = plain_layers(causal.config, columns)
        self.lean = lean if self.plain else None
        self.valid = torch.ones(len(valid), columns, dtype=torch.bool)
        self.valid[:, : valid.shape[1]] = valid
        self.length = 0
        self.next_position = -(~valid).sum(1, keepdim=True)

    @classmethod
    def prefill(
        cls,
        causal: Any,
        lean: LeanDecoder | None,
        prompts: Sequence[Sequence[int]],
        pad_id: int,
        more: int,
        room: int,
    ) -> tuple["Decode", Tensor]:
        """Reads the prompts, after which `more` tokens can follow, in up to `room` rows.

        Returns:
            The rows, and the logits of their next token, [rows, vocabulary].
        """
        if not all(prompts):
            raise ConfigError("a prompt has no token", where="local engine")
        width = max(map(len, prompts))
        ids, valid = pad(prompts, width, pad_id, left=True)
        rows = cls(causal, lean, valid, width + more, room)
        return rows, rows.forward(ids, keep=1)[:, 0]

    def forward(self, ids: Tensor, keep: int) -> Tensor:
        """Feeds [rows, tokens]; logits of the last `keep`, [rows, keep, vocabulary]."""
        count = ids.shape[1]
        self.length += count
        seen = self.valid[:, : self.length]
        positions = (self.next_position + torch.arange(count)).clamp_(min=0)
        self.next_position = self.next_position + count
        mask: Tensor = causal_mask(seen, count, self.causal.dtype) if self.plain else seen.long()
        if self.lean is not None:
            return self.lean.rows(ids, positions, self.cache, mask, keep)
        return self.causal(  # type: ignore[no-any-return]
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            cache=self.cache,
            use_cache=True,
            logits_to_keep=keep,
        ).logits

    def branch(self, parents: Tensor) -> Tensor:
        """Rows become the children of rows.

        Args:
            parents: the parent's row of each child; a row may have many, or none.

        Returns:
            For each row that there is now, its child.
        """
        children = branch_rows(self.cache, parents)
        rows = parents[children]
        self.valid, self.next_position = self.valid[rows], self.next_position[rows]
        return children


def pad(
    rows: Sequence[Sequence[int]], width: int, pad_id: int, left: bool
) -> tuple[Tensor, Tensor]:
    """Token ids and which are real, both [rows, width]."""
    ids = torch.full((len(rows), width), pad_id)
    valid = torch.zeros(len(rows), width, dtype=torch.bool)
    for index, row in enumerate(rows):
        place = slice(width - len(row), None) if left else slice(0, len(row))
        ids[index, place] = torch.tensor(row)
        valid[index, place] = True
    return ids, valid
