"""Checks that stop a training before it does harm; each names specialist, step and batch."""

import hashlib
import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from macaron.engines.adapters import parameters_of
from macaron.errors import TrainingError

GAP_LIMIT = {torch.float32: 1e-2, torch.bfloat16: 0.5}
"""Largest difference between the sampler's and the learner's log-probability of one token."""


def stop(what: str, where: str, batch: Iterable[object]) -> TrainingError:
    """The error that ends a training, and leaves the adapter before it in force."""
    names = ", ".join(map(str, batch))
    return TrainingError(
        f"{what}; batch: {names}",
        where=where,
        mend="the adapter is unchanged; lower lr, or see log",
    )


def check_rewards(
    rewards: Sequence[float | None], expected: int, where: str, batch: Iterable[object]
) -> None:
    """One finite reward, or None, a response."""
    if len(rewards) != expected:
        raise stop(f"{len(rewards)} rewards for {expected} responses", where, batch)
    if not all(r is None or math.isfinite(r) for r in rewards):
        raise stop("a reward is not finite", where, batch)


def check_finite(values: Tensor, what: str, where: str, batch: Iterable[object]) -> None:
    """Every value is finite."""
    if not bool(torch.isfinite(values).all()):
        raise stop(f"{what} is not finite", where, batch)


def check_gap(gap: float, dtype: torch.dtype, where: str, batch: Iterable[object]) -> None:
    """Sampler and learner agree on the log-probabilities of what was sampled."""
    if gap > GAP_LIMIT[dtype]:
        raise stop(f"sampler and learner differ by {gap:.3g} in log-probability", where, batch)


@torch.no_grad()
def fingerprint(model: nn.Module, adapter: str) -> str:
    """SHA-256 of every parameter but the adapter's own."""
    own = set(parameters_of(model, adapter))
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        if name not in own:
            digest.update(name.encode())
            digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
