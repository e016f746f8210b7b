"""Attention as plain grouped matrix products, registered with transformers under one name.

Key and value heads are never repeated: the query heads that share one are folded into its rows.
On a CPU at a few hundred tokens this is faster than scaled_dot_product_attention, backwards above
all. The result is that of the eager implementation up to rounding.
"""

from typing import Any

import torch
from torch import Tensor

from macaron.engines.packed import TreeIndex, tree_attention

NAME = "macaron_grouped"


def grouped_attention(
    module: torch.nn.Module | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    trees: TreeIndex | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention in transformers' interface.

    Args:
        module: the attention layer; unused.
        query: [batch, heads, queries, width].
        key: [batch, key heads, keys, width]; `value` alike.
        attention_mask: additive, [batch or 1, 1, queries, keys]; None lets all see all.
        scaling: factor of the scores; None: width ** -0.5.
        softcap: tanh limit of the scores.
        trees: the layout of a stream of trees, instead of the mask.

    Returns:
        [batch, queries, heads, width], and no weights.
    """
    batch, heads, queries, width = query.shape
    shared = key.shape[1]
    scale = width**-0.5 if scaling is None else scaling
    if trees is not None and softcap is None:
        return tree_attention(query, key, value, trees, scale), None
    folded = (query if scale == 1 else query * scale).reshape(batch, shared, -1, width)
    scores = torch.matmul(folded, key.transpose(2, 3))
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if attention_mask is not None:
        split = scores.view(batch, shared, heads // shared, queries, -1)
        split.add_(attention_mask[:, :, None])
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    mixed = torch.matmul(weights, value).view(batch, heads, queries, -1)
    return mixed.transpose(1, 2).contiguous(), None


def register() -> str:
    """Makes the implementation known to transformers; its name."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, eager_mask)
    return NAME


def causal_mask(keys_valid: Tensor, queries: int, dtype: torch.dtype) -> Tensor:
    """Additive causal mask over left-padded rows.

    Args:
        keys_valid: bool, [batch, keys]; False on padding.
        queries: the last `queries` keys ask.
        dtype: of the result.

    Returns:
        [batch, 1, queries, keys]: 0 where a query sees a key, else the least finite value (a row
        that sees nothing is then uniform, not NaN).
    """
    keys = keys_valid.shape[1]
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    allowed = (seen[None] & keys_valid[:, None])[:, None]
    return additive(allowed, dtype)


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where allowed, else the least finite value."""
    return torch.zeros(allowed.shape, dtype=dtype).masked_fill_(~allowed, torch.finfo(dtype).min)
