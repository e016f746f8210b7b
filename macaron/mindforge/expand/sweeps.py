"""Sweeps: single configurations at the search's own number of attempts, for comparison.

A sweep sets one field, of every specialist that has it, and spends its attempts on what it has
not passed yet; as a person would who turns one knob.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from macaron.environments.base import Task
from macaron.errors import ConfigError
from macaron.hcp.document import HCP
from macaron.mindforge.expand.attempts import Ask, Batches
from macaron.mindforge.expand.candidate import Edit, edited
from macaron.mindforge.expand.slices import slice_of
from macaron.mindforge.expand.templates import ADVICE, widening


@dataclass(frozen=True)
class Sweep:
    """One configuration."""

    name: str
    hcp: HCP


def single_fields(hcp: HCP) -> Iterator[Sweep]:
    """One field at a time, over all specialists."""
    for temperature in (0.5, 1.0, 1.3):
        yield _all(hcp, f"temperature={temperature}", "temperature", temperature)
    for times in (2, 4):
        longer = {key: times * config.max_tokens for key, config in hcp.specialists.items()}
        edits = [Edit(f"specialists.{key}.max_tokens", value) for key, value in longer.items()]
        yield Sweep(f"max_tokens x{times}", edited(hcp, edits))
    yield _all(hcp, "stop=[]", "stop", [])
    yield Sweep("hooks=[]", edited(hcp, [Edit("hooks", [])]))
    for number, text in enumerate(ADVICE):
        systems = {key: f"{config.system}\n{text}" for key, config in hcp.specialists.items()}
        edits = [Edit(f"specialists.{key}.system", value) for key, value in systems.items()]
        yield Sweep(f"advice {number}", edited(hcp, edits))


def everything(hcp: HCP) -> Sweep:
    """All of it at once, the widest harness: no single field, and nothing that one would serve."""
    edits = [e for key in hcp.specialists for e in widening(hcp, key) if "hooks" not in e.path]
    return Sweep("all fields widened", edited(hcp, [*edits, Edit("hooks", [])]))


def _all(hcp: HCP, name: str, field: str, value: object) -> Sweep:
    return Sweep(
        name, edited(hcp, [Edit(f"specialists.{k}.{field}", value) for k in hcp.specialists])
    )


def sweep(one: Sweep, tasks: Sequence[Task], attempts: int, batches: Batches) -> set[str]:
    """The tasks that the configuration passes within the attempts.

    Greedy attempts after the first are the same, so that they are spent without being played.

    Raises:
        ConfigError: a task's specialist is not in the harness.
    """
    for task in tasks:
        if task.specialist not in one.hcp.specialists:
            raise ConfigError(f"no specialist {task.specialist!r}", where=one.name)
    covered: set[str] = set()
    number = 0
    while attempts > 0 and (open_ := [task for task in tasks if task.id not in covered]):
        number += 1
        asked = open_[:attempts]
        attempts -= len(asked)
        due = [task for task in asked if number == 1 or not _greedy(one.hcp, task)]
        if not due:
            break
        asks = [Ask(slice_of(one.hcp, t.specialist)[:12], one.hcp, t, number) for t in due]
        covered |= {a.task for a in batches.run("sweep", asks) if a.passed}
    return covered


def _greedy(hcp: HCP, task: Task) -> bool:
    return hcp.specialists[task.specialist].temperature == 0
