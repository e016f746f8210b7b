"""What each step uses: its learning rate, prompts and examples, from the step's number alone.

Nothing runs along between steps, so that a resumed run uses what an unbroken one does.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

from macaron.engines.randomness import derive
from macaron.profile import GrpoConfig

Item = TypeVar("Item")


def learning_rate(config: GrpoConfig, step: int) -> float:
    """Linear warm-up to the peak, then linear to `final_lr` of it at the last step.

    Args:
        step: from 0.
    """
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    decay = max(1, config.steps - 1 - config.warmup)
    done = min(1.0, (step - config.warmup) / decay)
    return config.lr * (1 - (1 - config.final_lr) * done)


def step_prompts(config: GrpoConfig, total: int, step: int) -> list[int]:
    """Indices of the step's prompts: in order, from the start again where they run out."""
    return [index % total for index in range(step * config.prompts, (step + 1) * config.prompts)]


def step_examples(items: Sequence[Item], count: int, seed: int, step: int) -> list[Item]:
    """The step's `count` items: passes over all of them, each pass in its own random order."""
    chosen: list[Item] = []
    for place in range(step * count, (step + 1) * count) if items else ():
        epoch, index = divmod(place, len(items))
        chosen.append(items[_order(len(items), seed, epoch)[index]])
    return chosen


def _order(count: int, seed: int, epoch: int) -> list[int]:
    order = list(range(count))
    random.Random(derive(seed, "order", epoch)).shuffle(order)
    return order


def share(count: int, rank: int, size: int) -> range:
    """This rank's part of `count` items: whole items, in order."""
    return range(count * rank // size, count * (rank + 1) // size)
