"""Layouts: how trees become one forward pass, and its logits the responses' log-probabilities.

Every layout gives the same log-probabilities, in the order of trees, branches and tokens.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from macaron.learner.tree import Tree


class Layout(Protocol):
    """A way to run trees."""

    name: str

    def logprobs(self, causal: Any, trees: Sequence[Tree]) -> Tensor:
        """log p of every response token, fp32, [tokens]; with gradient."""
        ...


class PlainLayout:
    """One row a response, prompt and all, right-padded: what every architecture can run."""

    name = "one row a response"

    def logprobs(self, causal: Any, trees: Sequence[Tree]) -> Tensor:
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
        logits = causal(
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
    chosen = logits.view(-1).index_select(0, rows * logits.shape[1] + tokens)
    return chosen - torch.logsumexp(logits, -1).index_select(0, rows)
