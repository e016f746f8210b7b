"""Choosing tokens from logits, and keeping what was chosen.

A log-probability is always that of the distribution the token was drawn from, in fp32.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macaron.engines.base import Completion, SampleParams


def choose(
    logits: Tensor, params: SampleParams, owners: Tensor, uniform: Tensor
) -> tuple[Tensor, Tensor]:
    """Draws a token for each sample from its row's distribution.

    Args:
        logits: [rows, vocabulary].
        params: temperature 0 takes the likeliest token, and its log-probability is at
            temperature 1 over all tokens.
        owners: the row of each sample, [samples].
        uniform: float64 in [0, 1), [samples]; unused when greedy.

    Returns:
        Token ids and log-probabilities, [samples]; a row of NaN gives NaN.
    """
    logits, temperature = logits.float(), params.temperature
    if temperature > 0:
        logprobs = torch.log_softmax(logits / temperature if temperature != 1 else logits, -1)
        if params.top_p < 1:
            logprobs = nucleus(logprobs, params.top_p)
        mass = logprobs.exp().cumsum(-1, dtype=torch.float64).index_select(0, owners)
        place = torch.searchsorted(mass, (uniform * mass[:, -1])[:, None], right=True)
        tokens = place.clamp_(max=logits.shape[-1] - 1)[:, 0]
    else:
        logprobs = torch.log_softmax(logits, -1)
        tokens = logprobs.argmax(-1).index_select(0, owners)
    places = owners * logits.shape[-1] + tokens
    return tokens, logprobs.view(-1).index_select(0, places)


def nucleus(logprobs: Tensor, top_p: float) -> Tensor:
    """The distribution of the likeliest tokens that together reach `top_p`, [rows, vocabulary]."""
    ordered, places = logprobs.sort(-1, descending=True)
    mass = ordered.exp()
    # What was reached before a token decides, so that the likeliest one always stays.
    beyond = mass.cumsum(-1) - mass >= top_p
    kept = ordered.masked_fill(beyond, -torch.inf).log_softmax(-1)
    return torch.empty_like(kept).scatter_(-1, places, kept)


def families(owners: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Samples that share a row and draw the same token share the next row.

    Args:
        owners: the row of each sample; `tokens` what it drew.

    Returns:
        The parent's row and the token of each child, and the child of each sample.
    """
    top = int(tokens.max()) + 1
    children, child = torch.unique(owners * top + tokens, return_inverse=True)
    return children // top, children % top, child


@dataclass
class Tape:
    """The tokens of a batch of rows while they are sampled."""

    params: SampleParams
    tokens: NDArray[np.int64]
    """[rows, max_tokens]."""
    logprobs: NDArray[np.float32]
    lengths: NDArray[np.int64]
    stopped: NDArray[np.bool_]
    stop_ids: NDArray[np.int64]

    @classmethod
    def blank(cls, rows: int, params: SampleParams) -> "Tape":
        """Nothing sampled yet."""
        shape = (rows, params.max_tokens)
        return cls(
            params,
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.float32),
            np.zeros(rows, dtype=np.int64),
            np.zeros(rows, dtype=bool),
            np.array(params.stop_ids, dtype=np.int64),
        )

    def write(self, rows: NDArray[np.int64], step: int, tokens: Tensor, logprobs: Tensor) -> None:
        """Keeps one token of each of these rows, but for those that have stopped."""
        going = ~self.stopped[rows]
        kept = rows[going]
        ids = tokens.numpy()[going]
        self.tokens[kept, step] = ids
        self.logprobs[kept, step] = logprobs.numpy()[going]
        self.lengths[kept] = step + 1
        self.stopped[kept] = (ids[:, None] == self.stop_ids).any(1)

    def completions(self) -> list[Completion]:
        """The rows as completions."""
        return [
            Completion(
                self.tokens[row, :length].tolist(),
                self.logprobs[row, :length].tolist(),
                "stop" if self.stopped[row] else "length",
            )
            for row, length in enumerate(self.lengths)
        ]
