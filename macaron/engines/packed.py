"""Attention over trees that lie in one stream of tokens: prompts, each with its responses.

A prompt's tokens see what comes before them in the prompt; a response's tokens see the whole
prompt and what comes before them in the response. Nothing is padded but inside this function,
and the prompt's keys are computed once for all its responses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Span:
    """A tree's place in the stream."""

    prompt: range
    branches: Sequence[range]
    """One a response; may be empty."""


class TreeIndex:
    """Where the stream's tokens lie in the padded blocks that attention is computed in.

    Built for one set of spans; serves every layer, whatever its numbers of heads.
    """

    def __init__(self, spans: Sequence[Span], tokens: int) -> None:
        """
        Args:
            spans: cover the stream without gaps or overlaps.
            tokens: length of the stream.
        """
        branches = [(tree, b) for tree, span in enumerate(spans) for b in span.branches]
        self.tokens = tokens
        self.trees = len(spans)
        self.prompt = max(len(s.prompt) for s in spans)
        self.branch = max(1, *(len(b) for _, b in branches))
        self.keys = self.prompt + self.branch
        self.tree_of = torch.tensor([tree for tree, _ in branches])
        """The tree of each branch."""
        # The stream's length stands for padding.
        self.prompt_rows = torch.full((self.trees, self.prompt), tokens)
        self.branch_rows = torch.full((len(branches), self.branch), tokens)
        for tree, span in enumerate(spans):
            self.prompt_rows[tree, : len(span.prompt)] = _positions(span.prompt)
        for place, (_, branch) in enumerate(branches):
            self.branch_rows[place, : len(branch)] = _positions(branch)
        self.own_mask = _unseen(torch.ones(self.prompt, self.prompt, dtype=torch.bool).tril())
        before = (self.prompt_rows < tokens)[self.tree_of, None].expand(-1, self.branch, -1)
        own = torch.ones(self.branch, self.branch, dtype=torch.bool).tril()
        self.branch_mask = _unseen(torch.cat([before, own.expand(len(branches), -1, -1)], 2))
        self._heads: dict[tuple[int, int], _HeadIndex] = {}

    def heads(self, query: int, shared: int) -> "_HeadIndex":
        """The index of rows of one head's width."""
        if (query, shared) not in self._heads:
            self._heads[query, shared] = _HeadIndex(self, query, shared)
        return self._heads[query, shared]


def _unseen(seen: Tensor) -> Tensor:
    """0 where seen, else so little that softmax gives nothing; in fp32."""
    return torch.zeros(seen.shape).masked_fill_(~seen, torch.finfo(torch.float32).min)


def _positions(span: range) -> Tensor:
    return torch.arange(span.start, span.stop)


class _HeadIndex:
    """Rows of [tokens * heads, width] for every place in the blocks, and the way back."""

    def __init__(self, index: TreeIndex, query: int, shared: int) -> None:
        group = query // shared
        of_query = torch.arange(query).view(shared, 1, group, 1)
        of_key = torch.arange(shared).view(shared, 1, 1)
        prompt, branch = index.prompt_rows, index.branch_rows
        self.prompt_real = (prompt < index.tokens).view(len(prompt), 1, -1, 1).float()
        self.branch_real = (branch < index.tokens).view(len(branch), 1, -1, 1).float()
        query_prompt = prompt[None, :, None] * query + of_query
        query_branch = branch[None, :, None] * query + of_query
        key_prompt, own = prompt[None] * shared + of_key, branch[None] * shared + of_key
        before = key_prompt[:, index.tree_of]
        rows_q, rows_k = index.tokens * query, index.tokens * shared
        self.back_query = _inverse([query_prompt, query_branch], rows_q)
        self.back_key = _inverse([key_prompt, own], rows_k)
        # Padding reads any row: nothing sees it.
        self.query_prompt = query_prompt.clamp_(max=rows_q - 1)
        self.query_branch = query_branch.clamp_(max=rows_q - 1)
        self.key_prompt = key_prompt.clamp_(max=rows_k - 1)
        self.key_branch = torch.cat([before, own], 2).clamp_(max=rows_k - 1)


def _inverse(places: Sequence[Tensor], rows: int) -> Tensor:
    """For each stream row, where it lies among the blocks laid end to end."""
    flat = torch.cat([p.flatten() for p in places]).clamp_(max=rows)
    back = torch.zeros(rows + 1, dtype=torch.long)
    back[flat] = torch.arange(len(flat))
    return back[:rows]


class _TreeAttention(torch.autograd.Function):
    """softmax(scale q k' + mask) v, block by block; the gradient is written out."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, index: TreeIndex, scale: float
    ) -> Tensor:
        heads = index.heads(query.shape[1], key.shape[1])
        saved, mixed = [], []
        for block in _blocks(index, heads):
            q = _gather(query, block.query)
            k, v = _gather(key, block.key), _gather(value, block.key)
            scores = torch.bmm(q.mul_(scale) if scale != 1 else q, k.transpose(1, 2))
            scores.view(block.shape).add_(block.mask)
            weights = torch.softmax(scores, -1)
            saved += [q, k, v, weights]
            mixed.append(torch.bmm(weights, v).view(-1, v.shape[-1]))
        ctx.save_for_backward(*saved)
        ctx.index, ctx.scale, ctx.shapes = index, scale, (query.shape, key.shape)
        return torch.cat(mixed).index_select(0, heads.back_query).view(query.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        index: TreeIndex = ctx.index
        query_shape, key_shape = ctx.shapes
        heads = index.heads(query_shape[1], key_shape[1])
        saved = iter(ctx.saved_tensors)
        queries, keys, values = [], [], []
        for block in _blocks(index, heads):
            q, k, v, weights = (next(saved) for _ in range(4))
            out = _gather(grads[0], block.query)
            # A padding query must add nothing to the keys' gradients.
            out.view(*block.query.shape, -1).mul_(block.real)
            values.append(torch.bmm(weights.transpose(1, 2), out))
            scores = torch._softmax_backward_data(
                torch.bmm(out, v.transpose(1, 2)), weights, -1, weights.dtype
            )
            queries.append(torch.bmm(scores, k).view(-1, k.shape[-1]))
            keys.append(torch.bmm(scores.transpose(1, 2), q))
        of_query = torch.cat(queries).index_select(0, heads.back_query)
        return (
            (of_query.mul_(ctx.scale) if ctx.scale != 1 else of_query).view(query_shape),
            _shared(index, keys).index_select(0, heads.back_key).view(key_shape),
            _shared(index, values).index_select(0, heads.back_key).view(key_shape),
            None,
            None,
        )


@dataclass(frozen=True)
class _Block:
    query: Tensor
    """Rows of the queries, [shared heads, sequences, group, queries]."""
    key: Tensor
    """Rows of the keys, [shared heads, sequences, keys]."""
    real: Tensor
    """0 on padding queries, else 1; [sequences, 1, queries, 1]."""
    mask: Tensor
    shape: tuple[int, ...]
    """Of the scores, such that the mask broadcasts to it."""


def _blocks(index: TreeIndex, heads: _HeadIndex) -> tuple[_Block, _Block]:
    shared, _, group, _ = heads.query_prompt.shape
    prompt = index.prompt
    return (
        _Block(
            heads.query_prompt,
            heads.key_prompt,
            heads.prompt_real,
            index.own_mask,
            (-1, prompt, prompt),
        ),
        _Block(
            heads.query_branch,
            heads.key_branch,
            heads.branch_real,
            index.branch_mask[None, :, None],
            (shared, len(index.tree_of), group, index.branch, index.keys),
        ),
    )


def _gather(states: Tensor, places: Tensor) -> Tensor:
    """Rows of [tokens, heads, width] as [shared heads * sequences, the rest, width]."""
    picked = states.reshape(-1, states.shape[-1]).index_select(0, places.flatten())
    return picked.view(places.shape[0] * places.shape[1], -1, picked.shape[1])


def _shared(index: TreeIndex, grads: Sequence[Tensor]) -> Tensor:
    """Gradients of keys as rows: the prompts' own with those from all their responses, the rest."""
    prompts, branches = grads
    width = prompts.shape[-1]
    prompts = prompts.view(-1, index.trees, index.prompt, width)
    split = branches.view(-1, len(index.tree_of), index.keys, width)
    prompts = prompts.index_add(1, index.tree_of, split[:, :, : index.prompt])
    return torch.cat([prompts.view(-1, width), split[:, :, index.prompt :].reshape(-1, width)])


def tree_rows_attention(
    query: Tensor, key: Tensor, value: Tensor, index: TreeIndex, scale: float
) -> Tensor:
    """Attention over the stream.

    Args:
        query: [tokens, heads, width]; `key` and `value` [tokens, key heads, width].
        index: of the stream.
        scale: of the scores.

    Returns:
        [tokens, heads, width].
    """
    out: Tensor = _TreeAttention.apply(query, key, value, index, scale)  # type: ignore[no-untyped-call]
    return out


def tree_attention(
    query: Tensor, key: Tensor, value: Tensor, index: TreeIndex, scale: float
) -> Tensor:
    """The same from [1, heads, tokens, width], as transformers has it, to [1, tokens, ...]."""
    q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
    return tree_rows_attention(q, k, v, index, scale)[None]
