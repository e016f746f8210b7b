"""The DeepSpeed backend: one engine a specialist, over its LoRA's parameters alone.

The frozen base is resident in every rank and is never wrapped, so that specialists can be trained
on it one after the other. Each rank hands over its own summed gradients once a step; DeepSpeed
reduces them over ranks, clips, and steps its (ZeRO-partitioned) AdamW.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from macaron.learner.backend import Updater, adamw, optimizer_state, restore_optimizer
from macaron.profile import GrpoConfig


class DeepSpeedBackend:
    """The ranks of a `deepspeed` launch."""

    def __init__(self) -> None:
        """Joins the launch's process group; RANK, WORLD_SIZE and so on come from the launcher."""
        import logging

        import deepspeed
        from deepspeed.utils import logger

        logger.setLevel(logging.WARNING)
        deepspeed.init_distributed(verbose=False)
        self.rank: int = deepspeed.comm.get_rank()
        self.size: int = deepspeed.comm.get_world_size()
        self.shards = self.size
        self.device: str = deepspeed.get_accelerator().current_device_name()

    def updater(self, parameters: Sequence[nn.Parameter], config: GrpoConfig) -> Updater:
        """A DeepSpeed engine over the parameters."""
        return DeepSpeedUpdater(parameters, config, self.size)

    def sum(self, values: Sequence[float]) -> list[float]:
        """Element-wise, over ranks."""
        return self._reduced(values, "SUM")

    def max(self, value: float) -> float:
        """Over ranks."""
        return self._reduced([value], "MAX")[0]

    def wait(self) -> None:
        """Returns once every rank has come here."""
        self._reduced([0.0], "SUM")

    def _reduced(self, values: Sequence[float], operation: str) -> list[float]:
        import deepspeed

        tensor = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        deepspeed.comm.all_reduce(tensor, op=getattr(deepspeed.comm.ReduceOp, operation))
        return [float(v) for v in tensor.tolist()]


class DeepSpeedUpdater:
    """One specialist's DeepSpeed engine."""

    def __init__(self, parameters: Sequence[nn.Parameter], config: GrpoConfig, size: int) -> None:
        import deepspeed

        self.parameters = list(parameters)
        self.engine: Any
        self.engine, *_ = deepspeed.initialize(
            model=_Gradients(parameters, size),
            optimizer=adamw(parameters, config.lr),
            config=engine_config(config),
        )

    def step(self, gradients: Sequence[Tensor], lr: float) -> float:
        """Sums the gradients over ranks, clips, steps; the norm before clipping."""
        for group in self.engine.optimizer.param_groups:
            group["lr"] = lr
        self.engine.backward(self.engine(gradients))
        # Without ZeRO the reduced gradients lie on the parameters, and DeepSpeed reports no norm.
        whole = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(whole)
        self.engine.step()
        return float(self.engine.get_global_grad_norm() or norm)

    def state(self) -> dict[str, Tensor]:
        """All that this rank's part of the optimizer remembers, by name."""
        return optimizer_state(self.engine.basic_optimizer)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Puts back what `state` gave."""
        restore_optimizer(self.engine.basic_optimizer, state)

    def close(self) -> None:
        """Frees the engine; the parameters stay."""
        self.engine.destroy()


class _Gradients(nn.Module):
    """A function of the parameters whose gradient is given: what DeepSpeed differentiates."""

    def __init__(self, parameters: Sequence[nn.Parameter], size: int) -> None:
        super().__init__()
        self.parameters_ = nn.ParameterList(parameters)
        self.size = size

    def forward(self, gradients: Sequence[Tensor]) -> Tensor:
        """DeepSpeed averages over ranks, and our losses are parts of one sum: times the ranks."""
        parts = [(p * g).sum() for p, g in zip(self.parameters_, gradients, strict=True)]
        return torch.stack(parts).sum() * self.size


def engine_config(config: GrpoConfig) -> dict[str, Any]:
    """DeepSpeed's configuration."""
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": config.max_grad_norm,
        "zero_optimization": {"stage": config.zero_stage},
        "steps_per_print": None,
    }
