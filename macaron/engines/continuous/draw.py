"""A token for each row of a batch, from its own parameters and its own random numbers."""

from collections.abc import Sequence

import torch
from torch import Tensor

from macaron.engines.base import SampleParams
from macaron.engines.continuous.row import Sampling
from macaron.engines.sampler import choose


def draw(rows: Sequence[Sampling], logits: Tensor) -> tuple[list[int], list[float]]:
    """A token for each row and its log-probability; rows with like parameters together.

    Args:
        logits: [rows, vocabulary].
    """
    tokens, logprobs = [0] * len(rows), [0.0] * len(rows)
    kinds: dict[tuple[float, float], list[int]] = {}
    for place, row in enumerate(rows):
        kinds.setdefault((row.params.temperature, row.params.top_p), []).append(place)
    for (temperature, top_p), places in kinds.items():
        uniform = [rows[p].uniform[len(rows[p].tokens)] for p in places]
        found = choose(
            logits if len(kinds) == 1 else logits[places],
            SampleParams(1, temperature=temperature, top_p=top_p),
            torch.arange(len(places)),
            torch.tensor(uniform, dtype=torch.float64),
        )
        for place, token, logprob in zip(places, *(x.tolist() for x in found), strict=True):
            tokens[place], logprobs[place] = token, logprob
    return tokens, logprobs
