"""The shipped base under harnesses with known faults, and plays that need no model."""

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from macaron.contract.document import load_contract
from macaron.environments import environment
from macaron.environments.base import Score, Task
from macaron.harness.turn import Turn
from macaron.hcp.document import HCP, load_hcp
from macaron.mindforge.expand.attempts import Play
from macaron.mindforge.expand.candidate import Edit, edited
from macaron.mint.episodes import Episode
from macaron.mol.runtime import Runtime
from tests.project import HOUSE

NANO = HOUSE / "models/nano"
SHIPPED = load_hcp(HOUSE / "contracts/hcp/nano.toml")
CONTRACT = load_contract(HOUSE / "contracts/v1.toml")
SCOPE = CONTRACT.rewritable


def changed(hcp: HCP = SHIPPED, **fields: Any) -> HCP:
    """The harness with fields changed; `L1__stop` is `specialists.L1.stop`, others are sections."""

    def path(name: str) -> str:
        return "specialists." + name.replace("__", ".") if "__" in name else name

    return edited(hcp, [Edit(path(name), value) for name, value in fields.items()])


def hook(**fields: Any) -> dict[str, Any]:
    """A hook that rewrites what every answer says."""
    return {
        "name": "spoil",
        "when": "after_turn",
        "pattern": "[a-z]",
        "action": "replace",
        "text": "#",
        **fields,
    }


def tasks(name: str, kind: str, count: int, seed: int = 0) -> list[Task]:
    """Different train tasks of one kind."""
    rng, found = random.Random(f"{name} {kind} {seed}"), dict[str, Task]()
    while len(found) < count:
        task = environment(name).sample(rng, "train", kind)
        found[task.id] = task
    return list(found.values())


@cache
def nano() -> tuple[Any, Any]:
    """The shipped base's tokenizer and an engine with it."""
    from transformers import AutoTokenizer

    from macaron.engines.local import load_local

    return AutoTokenizer.from_pretrained(NANO), load_local(NANO, {})


def runtime(hcp: HCP = SHIPPED) -> Runtime:
    """The shipped base at work under the harness."""
    tokenizer, engine = nano()
    return Runtime(hcp, tokenizer, {}, engine=engine)


def plays(rule: Callable[[HCP, Task, int], bool], log: list[int] | None = None) -> Play:
    """A play by a rule over (harness, task, seed); the sizes of its batches go into the log."""

    def play(hcp: HCP, asked: Sequence[Task], seeds: Sequence[int]) -> list[Episode]:
        if log is not None:
            log.append(len(asked))
        pairs = zip(asked, seeds, strict=True)
        return [
            Episode(Turn(task.specialist, (), "", "answer"), Score(float(rule(hcp, task, seed))))
            for task, seed in pairs
        ]

    return play
