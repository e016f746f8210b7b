"""Advantages: each response against the others to its own prompt, never across prompts.

A reward that could not be computed takes no part: not in the mean, not in the spread, not in the
loss.
"""

from collections.abc import Sequence
from statistics import fmean, stdev


def group_advantages(rewards: Sequence[float | None]) -> list[float | None]:
    """(reward - mean) / standard deviation over the valid rewards of one prompt.

    Args:
        rewards: one a response; None where it is invalid.

    Returns:
        One a response; None where there is nothing to learn from: an invalid reward, or a group
        whose valid rewards are all equal or fewer than two.
    """
    valid = [r for r in rewards if r is not None]
    if len(valid) < 2 or max(valid) == min(valid):
        return [None] * len(rewards)
    mean, spread = fmean(valid), stdev(valid)
    return [None if r is None else (r - mean) / spread for r in rewards]
