"""The lean decoder: a Llama-like model's arithmetic in few operations, from the model's weights.

transformers' modules cost more than the arithmetic of a base of a few million parameters. This
decoder reads the same weights, for one adapter at a time, and is used only where it was measured
to give the model's own logits (`macaron.engines.local`). It lives as long as its adapter does not
change.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from macaron.engines.attention import grouped_attention
from macaron.engines.cache import RowCache
from macaron.engines.fused import Fused, Heads, epsilon, fuse, gated, norm_weight
from macaron.engines.lora import is_plain
from macaron.engines.packed import TreeIndex, tree_rows_attention

SIZE_LIMIT = 512 * 2**20
"""Bytes that the fused weights may take."""
TABLE_STEP = 256
"""Positions that the table of cosines and sines grows by."""


@dataclass(frozen=True)
class LeanLayer:
    """One decoder layer."""

    qkv: Fused
    heads: Heads
    """Where it has a norm, the scale of the scores is in the queries' rows."""
    scale: float
    """Of the scores, where it isn't in `heads`."""
    out: Fused
    gate_up: Fused
    down: Fused


class LeanDecoder:
    """One adapter (or the bare base) on one model."""

    def __init__(self, causal: Any, adapter: str | None) -> None:
        """
        Args:
            causal: a model that `fits`.
            adapter: the adapter in force.
        """
        model = causal.model
        self.embed, self.rotary = model.embed_tokens, model.rotary_emb
        attention = model.layers[0].self_attn
        self.width: int = attention.head_dim
        self.heads = _outputs(attention.q_proj) // self.width
        self.shared = _outputs(attention.k_proj) // self.width
        self.layers = [_layer(layer, self.heads, self.shared, adapter) for layer in model.layers]
        self.head = fuse([causal.lm_head], None, model.norm)
        self.turns = torch.empty(0, self.width), torch.empty(0, self.width)
        """Cosines and sines by position."""

    def rows(
        self, ids: Tensor, positions: Tensor, cache: RowCache, mask: Tensor, keep: int
    ) -> Tensor:
        """Rows of tokens that go on from a cache, as in `transformers`; no gradient.

        Args:
            ids: [rows, tokens]; `positions` alike.
            mask: additive, [rows, 1, tokens, keys].
            keep: logits of the last so many tokens.

        Returns:
            [rows, keep, vocabulary].
        """
        rows, tokens = ids.shape
        x = self.embed(ids).view(rows * tokens, -1)
        cos, sin = self._turns(x, positions)
        for layer, kept in zip(self.layers, cache.layers, strict=True):
            q, k, v = (
                part.view(rows, tokens, -1, self.width).transpose(1, 2)
                for part in self._split(layer, x, cos, sin)
            )
            k, v = kept.update(k, v)
            mixed, _ = grouped_attention(None, q, k, v, mask, scaling=layer.scale)
            x = _rest(layer, x, mixed.view(rows * tokens, -1))
        last = x.view(rows, tokens, -1)[:, -keep:].reshape(rows * keep, -1)
        return self.head(last).view(rows, keep, -1)

    def trees(self, ids: Tensor, positions: Tensor, index: TreeIndex, keep: Tensor) -> Tensor:
        """A stream of trees, with gradient.

        Args:
            ids: [tokens]; `positions` alike.
            index: of the stream.
            keep: places whose logits are needed, [kept].

        Returns:
            [kept, vocabulary].
        """
        x = self.embed(ids)
        cos, sin = self._turns(x, positions[None])
        for layer in self.layers:
            q, k, v = self._split(layer, x, cos, sin)
            mixed = tree_rows_attention(q, k, v, index, layer.scale)
            x = _rest(layer, x, mixed.view(len(ids), -1))
        return self.head(x.index_select(0, keep))

    def _turns(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the positions, [rows, 1, width]."""
        top = int(positions.max()) + 1
        if top > len(self.turns[0]):
            # In steps, so that a decoder of one long generation makes few tables.
            every = torch.arange(-(-top // TABLE_STEP) * TABLE_STEP)
            cos, sin = self.rotary(x, every[None])
            self.turns = cos.view(-1, self.width), sin.view(-1, self.width)
        cos, sin = (table.index_select(0, positions.flatten()) for table in self.turns)
        return cos[:, None], sin[:, None]

    def _split(
        self, layer: LeanLayer, x: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each [rows, heads, width]."""
        return layer.heads(layer.qkv(x).view(len(x), -1, self.width), cos, sin)


def _rest(layer: LeanLayer, x: Tensor, mixed: Tensor) -> Tensor:
    """What follows the attention in a layer."""
    x = layer.out(mixed, x)
    return layer.down(gated(layer.gate_up(x)), x)


def _layer(layer: Any, heads: int, shared: int, adapter: str | None) -> LeanLayer:
    attention, mlp = layer.self_attn, layer.mlp
    norm, eps, scale = None, 0.0, float(attention.scaling)
    if hasattr(attention, "q_norm"):
        queries = (norm_weight(attention.q_norm) * scale).expand(heads, -1)
        norm = torch.cat([queries, norm_weight(attention.k_norm).expand(shared, -1)])
        eps, scale = epsilon(attention.q_norm), 1.0
    projections = [attention.q_proj, attention.k_proj, attention.v_proj]
    return LeanLayer(
        qkv=fuse(projections, adapter, layer.input_layernorm),
        heads=Heads(heads, shared, norm, eps),
        scale=scale,
        out=fuse([attention.o_proj], adapter),
        gate_up=fuse([mlp.gate_proj, mlp.up_proj], adapter, layer.post_attention_layernorm),
        down=fuse([mlp.down_proj], adapter),
    )


def _outputs(layer: Any) -> int:
    return int(getattr(layer, "base_layer", layer).weight.shape[0])


LINEAR = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
GATED = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
FIXED_TURNS = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary positions that don't depend on the length of the sequence."""
NORMS = ("input_layernorm", "post_attention_layernorm")


def fits(causal: Any, limit: int | None = SIZE_LIMIT) -> bool:
    """Whether the model has the parts that the decoder reads, in fp32, and is small enough.

    Whether it also computes with them as the decoder does is for its logits to show.
    """
    model: Any = getattr(causal, "model", None)
    if not all(hasattr(model, name) for name in ("embed_tokens", "rotary_emb", "layers", "norm")):
        return False
    parts = [_part(layer, name) for layer in model.layers for name in (*LINEAR, *GATED)]
    norms = [_part(layer, name) for layer in model.layers for name in NORMS]
    size = sum(p.numel() * 4 for p in causal.parameters())
    return (
        all(type(p) is nn.Linear or is_plain(p) for p in parts)
        and all(hasattr(n, "weight") for n in norms)
        and type(getattr(causal, "lm_head", None)) is nn.Linear
        and getattr(model.rotary_emb, "rope_type", "default") in FIXED_TURNS
        and causal.dtype == torch.float32
        and (limit is None or size <= limit)
    )


def _part(layer: Any, name: str) -> Any:
    for step in name.split("."):
        layer = getattr(layer, step, None)
    return layer
