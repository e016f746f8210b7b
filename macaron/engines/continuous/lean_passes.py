"""The passes of a Llama-like model in fp32, in few operations of our own.

They read the weights of the model itself, and are used only where they were measured to give its
own logits (`macaron.engines.continuous.probe`).
"""

from typing import Any

import torch
from torch import Tensor, nn

from macaron.engines.attention import grouped_attention
from macaron.engines.continuous.bank import Bank
from macaron.engines.continuous.feed import Feed
from macaron.engines.continuous.group import Group
from macaron.engines.fused import Heads, epsilon, gated, norm_weight, normalised
from macaron.engines.lean import TABLE_STEP


class LeanLayer:
    """One decoder layer of a Llama-like model."""

    def __init__(self, layer: Any, groups: list[Group], heads: int, shared: int) -> None:
        """
        Args:
            groups: the layer's, in the order of `macaron.engines.continuous.llama`.
        """
        attention = layer.self_attn
        self.qkv, self.out, self.gate_up, self.down = groups
        self.before = norm_weight(layer.input_layernorm), epsilon(layer.input_layernorm)
        after = layer.post_attention_layernorm
        self.after = norm_weight(after), epsilon(after)
        norm, eps, self.scale = None, 0.0, float(attention.scaling)
        if hasattr(attention, "q_norm"):
            queries = (norm_weight(attention.q_norm) * self.scale).expand(heads, -1)
            norm = torch.cat([queries, norm_weight(attention.k_norm).expand(shared, -1)])
            eps, self.scale = epsilon(attention.q_norm), 1.0
        self.heads = Heads(heads, shared, norm, eps)


class LeanPasses:
    """A Llama-like model in fp32."""

    def __init__(self, causal: Any, bank: Bank) -> None:
        """
        Args:
            causal: a model that `macaron.engines.lean.fits`; its bank's groups are those of
                `macaron.engines.continuous.llama`.
        """
        model = causal.model
        self.causal = causal
        self.embed, self.rotary, self.head = model.embed_tokens, model.rotary_emb, causal.lm_head
        attention = model.layers[0].self_attn
        self.width: int = attention.head_dim
        heads, shared, _ = (size // self.width for size in bank.groups[0].sizes)
        self.layers = [
            LeanLayer(layer, bank.groups[4 * n : 4 * n + 4], heads, shared)
            for n, layer in enumerate(model.layers)
        ]
        self.norm = norm_weight(model.norm), epsilon(model.norm)
        self.turns = torch.empty(0, self.width), torch.empty(0, self.width)
        """Cosines and sines by position."""

    def logits(self, feed: Feed) -> Tensor:
        """As `Passes`."""
        rows, tokens = feed.ids.shape
        x: Tensor = self.embed(feed.ids.view(-1))
        cos, sin = self._turns(x, feed.positions)
        for number, layer in enumerate(self.layers):
            every = layer.qkv(_normed(x, layer.before), feed.owned).view(len(x), -1, self.width)
            q, k, v = layer.heads(every, cos, sin)
            keys, values = feed.view.put(number, k, v)
            q = q.view(rows, tokens, -1, self.width).transpose(1, 2)
            mixed, _ = grouped_attention(None, q, keys, values, feed.mask, scaling=layer.scale)
            x = layer.out(mixed.view(len(x), -1), feed.owned, x)
            opened = gated(layer.gate_up(_normed(x, layer.after), feed.owned))
            x = layer.down(opened, feed.owned, x)
        last = _normed(x.index_select(0, feed.wanted), self.norm)
        found: Tensor = nn.functional.linear(last, self.head.weight, self.head.bias)
        return found

    def _turns(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the positions, each [rows * tokens, 1, width]."""
        top = int(positions.max()) + 1
        if top > len(self.turns[0]):
            every = torch.arange(-(-top // TABLE_STEP) * TABLE_STEP)
            cos, sin = self.rotary(x, every[None])
            self.turns = cos.view(-1, self.width), sin.view(-1, self.width)
        cos, sin = (table.index_select(0, positions.flatten()) for table in self.turns)
        return cos[:, None], sin[:, None]


def _normed(x: Tensor, norm: tuple[Tensor, float]) -> Tensor:
    factor, eps = norm
    return normalised(x, eps)[0].mul_(factor)
