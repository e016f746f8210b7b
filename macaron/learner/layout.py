"""Layouts: how trees become one forward pass, and its logits the responses' log-probabilities.

Every layout gives the same log-probabilities, in the order of trees, branches and tokens.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from macaron.engines.local import LocalEngine
from macaron.learner.tree import Tree


class Layout(Protocol):
    """A way to run trees."""

    name: str

    def logprobs(self, engine: LocalEngine, trees: Sequence[Tree]) -> Tensor:
        """log p of every response token, fp32, [tokens]; with gradient."""
        ...


class PlainLayout:
    """One row a response, prompt and all, right-padded: what every architecture can run."""

    name = "one row a response"

    def logprobs(self, engine: LocalEngine, trees: Sequence[Tree]) -> Tensor:
        """log p of every response token, fp32, [tokens]; with gradient."""
        rows = [(tree, branch) for tree in trees for branch in tree.branches]
        sequences = [[*tree.prompt_ids, *branch.token_ids] for tree, branch in rows]
        width = max(map(len, sequences))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        valid = torch.zeros(len(rows), width, dtype=torch.long)
        keep = torch.zeros(len(rows), width, dtype=torch.bool)
        for index, ((tree, _), sequence) in enumerate(zip(rows, sequences, strict=True)):
            ids[index, : len(sequence)] = torch.tensor(sequence)
            valid[index, : len(sequence)] = 1
            keep[index, len(tree.prompt_ids) - 1 : len(sequence) - 1] = True
        logits = engine.causal(
            input_ids=ids, attention_mask=valid, use_cache=False, logits_to_keep=keep
        ).logits
        tokens = torch.tensor([t for _, branch in rows for t in branch.token_ids])
        heat = torch.tensor([t.temperature for t, branch in rows for _ in branch.token_ids])
        logits = logits.view(len(tokens), -1)
        return chosen_logprobs(logits, torch.arange(len(tokens)), tokens, heat)


def chosen_logprobs(logits: Tensor, rows: Tensor, tokens: Tensor, temperature: Tensor) -> Tensor:
    """log p of the tokens, fp32, [tokens].

    Args:
        logits: [rows, vocabulary].
        rows: the row that predicts each token, [tokens]; `tokens` alike.
        temperature: of each row, [rows].
    """
    logits = logits.float()
    if not bool((temperature == 1).all()):
        logits = logits / temperature[:, None]
    chosen: Tensor = _Chosen.apply(logits, rows, tokens)  # type: ignore[no-untyped-call]
    return chosen


class _Chosen(torch.autograd.Function):
    """log_softmax(logits)[rows, tokens], with few passes over the vocabulary backwards."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
        logprobs = torch.log_softmax(logits, -1)
        places = rows * logits.shape[1] + tokens
        ctx.save_for_backward(logprobs, rows, places)
        return logprobs.view(-1).index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        logprobs, rows, places = ctx.saved_tensors
        of_row = grad.new_zeros(len(logprobs)).index_add_(0, rows, grad)
        back = logprobs.exp().mul_(-of_row[:, None])
        back.view(-1).index_add_(0, places, grad)
        return back, None, None
