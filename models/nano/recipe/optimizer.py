"""The recipe's optimizer: Muon for hidden matrices, AdamW for the rest, one schedule for both.

Invariant: every trainable parameter is in exactly one of the two.
"""

from collections.abc import Iterable
from typing import Any


class MuonAdamW:
    """Two optimizers that step as one.

    Args:
        model: whose `named_parameters` are split: 2-D parameters outside the embedding go to
            Muon, the rest to AdamW.
        lr: peak learning rate of both.
    """

    def __init__(self, model: Any, lr: float) -> None:
        import torch

        matrices: list[Any] = []
        others: list[Any] = []
        for name, parameter in model.named_parameters():
            hidden = parameter.ndim == 2 and "embed" not in name
            (matrices if hidden else others).append(parameter)
        self._peak = lr
        self._parts: tuple[Any, ...] = (
            torch.optim.Muon(matrices, lr=lr, momentum=0.95, nesterov=True, weight_decay=0.0),
            torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
        )

    def step(self, share: float) -> None:
        """One step at `share` of the peak rate, then the gradients are dropped."""
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = self._peak * share
            part.step()
            part.zero_grad(set_to_none=True)


def share_of_peak(step: int, steps: int, warmup: int, flat: float, final: float) -> float:
    """Linear warm-up, flat until `flat` of the steps, then linear down to `final`."""
    down = (steps - step) / max(1.0, steps * (1 - flat))
    return min((step + 1) / warmup, 1.0, max(final, final + (1 - final) * down))


def clip_(gradients: Iterable[Any], limit: float) -> float:
    """Scales the gradients in place to a joint norm of at most `limit`; gives the norm before."""
    import torch

    tensors = list(gradients)
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in tensors]))
    factor = limit / max(float(norm), limit)
    if factor < 1:
        torch._foreach_mul_(tensors, factor)
    return float(norm)
