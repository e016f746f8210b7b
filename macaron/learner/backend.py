"""Where a step's gradients become an optimizer step: in this process, or over many ranks.

A backend is given summed gradients once a step, on every rank, whether or not that rank had
anything to train.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from macaron.profile import GrpoConfig


class Updater(Protocol):
    """The optimizer of one specialist's adapter."""

    def step(self, gradients: Sequence[Tensor], lr: float) -> float:
        """Sums the gradients over ranks, clips, steps; the norm before clipping."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All that the optimizer remembers, by name; of this rank where ranks share it out."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Puts back what `state` gave."""
        ...

    def close(self) -> None:
        """Frees what the optimizer holds."""
        ...


class Backend(Protocol):
    """The processes that train together."""

    rank: int
    size: int
    shards: int
    """Ranks whose optimizer state differs and must be kept: 1, or `size`."""

    def updater(self, parameters: Sequence[nn.Parameter], config: GrpoConfig) -> Updater:
        """An optimizer over the parameters."""
        ...

    def sum(self, values: Sequence[float]) -> list[float]:
        """Element-wise, over ranks."""
        ...

    def max(self, value: float) -> float:
        """Over ranks."""
        ...

    def wait(self) -> None:
        """Returns once every rank has come here."""
        ...


def adamw(parameters: Sequence[nn.Parameter], lr: float) -> torch.optim.AdamW:
    """The optimizer of every backend: no weight decay, which would pull an adapter to its base."""
    return torch.optim.AdamW(list(parameters), lr=lr, weight_decay=0.0, fused=True)


class PlainBackend:
    """One process, torch only."""

    rank, size, shards = 0, 1, 1

    def updater(self, parameters: Sequence[nn.Parameter], config: GrpoConfig) -> Updater:
        """An optimizer over the parameters."""
        return PlainUpdater(parameters, config)

    def sum(self, values: Sequence[float]) -> list[float]:
        """The values."""
        return list(values)

    def max(self, value: float) -> float:
        """The value."""
        return value

    def wait(self) -> None:
        """Nobody to wait for."""


class PlainUpdater:
    """AdamW with gradient clipping."""

    def __init__(self, parameters: Sequence[nn.Parameter], config: GrpoConfig) -> None:
        self.parameters, self.max_norm = list(parameters), config.max_grad_norm
        self.optimizer = adamw(parameters, config.lr)

    def step(self, gradients: Sequence[Tensor], lr: float) -> float:
        """Clips, steps; the norm before clipping."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.max_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def state(self) -> dict[str, Tensor]:
        """All that the optimizer remembers, by name."""
        return optimizer_state(self.optimizer)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Puts back what `state` gave."""
        restore_optimizer(self.optimizer, state)

    def close(self) -> None:
        """Nothing is held."""


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors as "place of the parameter.name"."""
    return {
        f"{index}.{name}": value.detach().clone()
        for index, parameter in enumerate(_parameters(optimizer))
        for name, value in optimizer.state[parameter].items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """Puts back what `optimizer_state` gave."""
    parameters = _parameters(optimizer)
    for key, value in state.items():
        index, name = key.split(".", 1)
        optimizer.state[parameters[int(index)]][name] = value.clone()


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
