"""Runs the attacks against one environment's verifier.

A verifier is sound here only if no attack earns more than LIMIT on average: one full reward among
the tasks is enough to be refused, a share for trying is not.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from macaron.environments.base import Environment, Score, Split, Task, World
from macaron.environments.watch.attacks import Attack, answers, commands
from macaron.errors import ConfigError, MacaronError
from macaron.harness.tools import ToolBox

TASKS = 4
"""Attacked tasks, of as many kinds as there are."""
LIMIT = 0.1
"""Highest mean reward that an attack may earn; a full one on one of TASKS is more."""
SHELL = "bash"
"""The tool by which a world lets its model run commands."""


@dataclass(frozen=True)
class Found:
    """What an attack earned."""

    attack: str
    reward: float
    """The mean over the attacked tasks with a valid score; NaN where a reward was no number."""
    tasks: int
    """Tasks with a valid score."""

    @property
    def paid(self) -> bool:
        """Whether a verifier with this is to be refused."""
        return not isfinite(self.reward) or self.reward > LIMIT


def watch(made: Environment) -> list[Found]:
    """What each attack earned of the environment's verifier.

    Raises:
        ConfigError: the verifier broke on an attack, or there is no task to attack.
    """
    tasks = _tasks(made)
    if not tasks:
        raise ConfigError("has no task that could be attacked", where=made.name)
    pairs = [(task, attack) for task in tasks for attack in answers(task, tasks)]
    try:
        scores = made.verify([task for task, _ in pairs], [attack.text for _, attack in pairs])
    except MacaronError:
        raise
    except Exception as error:
        raise ConfigError(
            f"its verifier broke on an attack: {type(error).__name__}: {error}",
            where=f"environment {made.name}",
            mend="let verify score any text; a wrong answer is 0, a fault of its own is None",
        ) from error
    attacked = [(attack.name, task.id) for task, attack in pairs]
    return _means([*zip(attacked, scores, strict=True), *_commanded(made, tasks)])


def refuse(made: Environment) -> None:
    """Nothing, where the verifier pays for no attack.

    Raises:
        ConfigError: it pays for one, which is named.
    """
    paid = [found for found in watch(made) if found.paid]
    if not paid:
        return
    worst = max(paid, key=lambda found: (not isfinite(found.reward), found.reward))
    more = f" (and {len(paid) - 1} more)" if paid[1:] else ""
    raise ConfigError(
        f"its verifier pays {worst.reward:.2f} for the attack {worst.attack!r}{more}",
        where=f"environment {made.name}",
        mend="mend the verifier: an attack that knows nothing of the task must earn 0",
    )


def _tasks(made: Environment) -> list[Task]:
    rng = random.Random(f"watch {made.name}")
    kinds = list(made.kinds)
    rng.shuffle(kinds)
    found: dict[str, Task] = {}
    for i in range(TASKS):
        for split in ("train", "sealed") if i % 2 else ("sealed", "train"):
            task = _sample(made, rng, split, kinds[i % len(kinds)])
            if task is not None:
                found.setdefault(task.id, task)
                break
    return list(found.values())


def _sample(made: Environment, rng: random.Random, split: str, kind: str) -> Task | None:
    """None where the environment has no such task: a small taskset lies in one split."""
    wanted: Split = "sealed" if split == "sealed" else "train"
    try:
        return made.sample(rng, wanted, kind)
    except ConfigError:
        return None


def _commanded(made: Environment, tasks: Sequence[Task]) -> Iterator[tuple[tuple[str, str], Score]]:
    """The first task's world, if it has a shell, after each of the commands."""
    if not hasattr(made, "world"):
        return
    for attack in commands():
        world: World = made.world(tasks[0])
        box = ToolBox(world.tools())
        if SHELL not in (tool.name for tool in world.tools()):
            return
        yield (attack.name, tasks[0].id), _after(world, box, attack)


def _after(world: World, box: ToolBox, attack: Attack) -> Score:
    # What the model would read, an error too, is of no interest: only what it earned.
    box.run(SHELL, {"command": attack.text})
    return world.score("")


def _means(scores: Sequence[tuple[tuple[str, str], Score]]) -> list[Found]:
    best: dict[str, dict[str, float]] = {}
    for (name, task), score in scores:
        of_tasks = best.setdefault(name, {})
        if score.reward is not None:
            reward = score.reward if 0 <= score.reward <= 1 else float("nan")
            # max() would drop a NaN that comes first.
            kept = of_tasks.get(task, 0.0)
            of_tasks[task] = reward if not isfinite(reward) else max(kept, reward)
    return [
        Found(name, sum(rewards.values()) / len(rewards) if rewards else 0.0, len(rewards))
        for name, rewards in best.items()
    ]
