"""The step's loss over response tokens: clipped policy ratio, and likelihood of given responses.

Only response tokens carry loss, and every weight is already normalised by the global token count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from macaron.learner.tree import Tree


@dataclass(frozen=True)
class TokenTargets:
    """What each response token is worth; all [tokens], in the order of trees and branches."""

    old: Tensor
    """The sampler's log-probability; NaN where the token was given."""
    advantage: Tensor
    weight: Tensor


def targets(trees: Sequence[Tree]) -> TokenTargets:
    """The targets of the trees' response tokens."""
    old: list[float] = []
    advantage: list[float] = []
    weight: list[float] = []
    for branch in (b for tree in trees for b in tree.branches):
        learned = branch.learned or [True] * len(branch.token_ids)
        given = branch.old or [float("nan")] * len(learned)
        old += [o if keep else float("nan") for o, keep in zip(given, learned, strict=True)]
        advantage += [branch.advantage * branch.times * keep for keep in learned]
        weight += [branch.weight * branch.times * keep for keep in learned]
    return TokenTargets(torch.tensor(old), torch.tensor(advantage), torch.tensor(weight))


def step_loss(logprobs: Tensor, target: TokenTargets, clip: float) -> tuple[Tensor, float]:
    """The loss of some of the step's tokens, and how far learner and sampler differ.

    Args:
        logprobs: log p of each response token under the policy being trained, fp32.
        target: of the same tokens.
        clip: the ratio counts within 1 +- this.

    Returns:
        The summed loss; the largest |learner - sampler| difference (0 without policy tokens).
    """
    sampled = ~torch.isnan(target.old)
    old = torch.where(sampled, target.old, logprobs.detach())
    gap = float((logprobs.detach() - old).abs().max()) if len(old) else 0.0
    ratio = torch.exp(logprobs - old)
    clipped = ratio.clamp(1 - clip, 1 + clip)
    policy = torch.minimum(ratio * target.advantage, clipped * target.advantage)
    return -(policy + target.weight * logprobs).sum(), gap
