"""The problem bank (JSONL, train tasks only) and the sealed items that judge what it taught.

`python -m macaron.environments.bank OUT --seed N --per-environment N` writes the bank; the same
seed gives the same bytes.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from macaron.environments import environment, environments
from macaron.environments.base import Environment, Split, Task
from macaron.errors import ConfigError, DigestError
from macaron.files import canonical_json, read_lines, write_atomic

TIMES = {"routing": 4.0, "routing-languages": 0.2}
"""How many times as many tasks of an environment as of another: English words are learned one by
one, and of the other languages the nano base can read one only."""

_MEND = "make it again with `python -m macaron.environments.bank`"


def bank(per_environment: int, seed: int) -> list[Task]:
    """Distinct train tasks of every environment; each kind is there at least once."""
    return [
        task
        for name in environments()
        for task in _distinct(
            environment(name),
            "train",
            round(per_environment * TIMES.get(name, 1.0)),
            f"bank {name} {seed}",
        )
    ]


def sealed(name: str, n: int, seed: int) -> list[Task]:
    """`n` sealed tasks of the environment with distinct prompts, the same for the same seed.

    Raises:
        ConfigError: no such environment, or it has not that many prompts.
    """
    rng = random.Random(f"sealed {name} {seed}")
    made = environment(name)
    return _fill(made, lambda _: made.sample(rng, "sealed"), n)


def save_bank(tasks: Iterable[Task], path: Path) -> Path:
    """Writes one task a line, atomically."""
    return write_atomic(path, "".join(canonical_json(task.to_json()) + "\n" for task in tasks))


def load_bank(path: Path) -> list[Task]:
    """The bank's tasks.

    Raises:
        ConfigError: there is no file, or a line is no task, or the task is sealed.
        DigestError: a line's content is not what its id says.
    """
    try:
        lines = read_lines(path)
    except FileNotFoundError as error:
        raise ConfigError("no such problem bank", where=str(path), mend=_MEND) from error
    except UnicodeDecodeError as error:
        raise ConfigError("not UTF-8 text", where=str(path), mend=_MEND) from error
    if not lines:
        raise ConfigError("the problem bank is empty", where=str(path), mend=_MEND)
    return [_task(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _task(line: str, where: str) -> Task:
    try:
        value: dict[str, Any] = json.loads(line)
        task, written = Task.from_json(value), value["id"]
    except KeyError as error:
        raise ConfigError(f"a task without {error}", where=where, mend=_MEND) from error
    except (ValueError, TypeError) as error:
        raise ConfigError(f"not a task: {error}", where=where, mend=_MEND) from error
    if task.id != written:
        raise DigestError(f"the task is {task.id}, recorded as {written}", where=where, mend=_MEND)
    if task.split != "train":
        raise ConfigError("a sealed task in the bank", where=where, mend=_MEND)
    return task


def _distinct(made: Environment, split: Split, n: int, seed: str) -> list[Task]:
    rng = random.Random(seed)

    def sample(count: int) -> Task:
        # One of each kind first, so that no kind is missing from a small bank.
        kind = made.kinds[count] if count < len(made.kinds) else None
        return made.sample(rng, split, kind)

    return _fill(made, sample, n)


def _fill(made: Environment, sample: Callable[[int], Task], n: int) -> list[Task]:
    found: dict[str, Task] = {}
    for _ in range(50 * n + 1000):
        if len(found) == n:
            return list(found.values())
        task = sample(len(found))
        found.setdefault(canonical_json(task.messages), task)
    raise ConfigError(
        f"{made.name} has only {len(found)} distinct prompts, {n} were asked for",
        mend="ask for fewer",
    )


def main() -> None:
    """Writes the bank."""
    parser = argparse.ArgumentParser(description="Write the problem bank.")
    parser.add_argument("out", type=Path, help="the JSONL file to write")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--per-environment",
        type=int,
        default=1000,
        help="tasks of most environments",
    )
    options = parser.parse_args()
    tasks = bank(options.per_environment, options.seed)
    save_bank(tasks, options.out)
    print(f"{options.out}: {len(tasks)} tasks, seed {options.seed}")


if __name__ == "__main__":
    main()
