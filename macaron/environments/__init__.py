"""Environments by name, and verification of mixed tasks; importing this loads nothing heavy.

Besides the shipped ones, any installed package can bring its own by an entry point in the group
`macaron.environments` (see docs/environments.md); no two have one name.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from macaron.environments.agent import Agent
from macaron.environments.base import Environment, Score, Task
from macaron.environments.chat import Chat
from macaron.environments.coding import Coding
from macaron.environments.genui import GenUI
from macaron.environments.routing import Routing
from macaron.errors import ConfigError


@cache
def environments() -> dict[str, Environment]:
    """Name -> environment: those shipped, then those of installed packages.

    Raises:
        ConfigError: an installed environment cannot be loaded, or takes a name that is taken.
    """
    shipped: tuple[Environment, ...] = (Chat(), Agent(), Coding(), GenUI(), Routing())
    found = {made.name: made for made in shipped}
    for point in entry_points(group="macaron.environments"):
        where = f"entry point {point.name} = {point.value}"
        try:
            made: Environment = point.load()()
        except Exception as error:
            raise ConfigError(
                f"cannot load the environment: {error}", where=where, mend="mend its package"
            ) from error
        if made.name in found:
            raise ConfigError(f"the name {made.name!r} is taken", where=where, mend="rename it")
        found[made.name] = made
    return found


def environment(name: str) -> Environment:
    """The environment of that name.

    Raises:
        ConfigError: there is none.
    """
    known = environments()
    if name not in known:
        raise ConfigError(f"no environment {name!r}", mend=f"there are {', '.join(known)}")
    return known[name]


def verify(tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
    """One score per (task, answer), whatever mixture of environments the tasks are from."""
    groups: dict[str, list[int]] = {}
    for i, (task, _) in enumerate(zip(tasks, answers, strict=True)):
        groups.setdefault(task.environment, []).append(i)
    scores: dict[int, Score] = {}
    for name, indices in groups.items():
        found = environment(name).verify([tasks[i] for i in indices], [answers[i] for i in indices])
        scores.update(zip(indices, found, strict=True))
    return [scores[i] for i in range(len(tasks))]
