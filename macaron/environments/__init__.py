"""Environments by name, and verification of mixed tasks; importing this loads nothing heavy.

Besides the shipped ones, any installed package can bring its own by an entry point in the group
`macaron.environments` (see docs/environments.md); no two have one name. A name such as
`verifiers:glossary` or `harbor:tasks/mine` loads what was made for that package or format.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import cast

from macaron.environments.agent import Agent
from macaron.environments.base import Environment, Score, Task, WorldEnvironment
from macaron.environments.chat import Chat
from macaron.environments.coding import Coding
from macaron.environments.families import FAMILIES
from macaron.environments.genui import GenUI
from macaron.environments.harbor import load_harbor
from macaron.environments.offers import Offers
from macaron.environments.orders import Orders
from macaron.environments.routing import english, other_languages
from macaron.environments.verifiers_loader import load_verifiers
from macaron.errors import ConfigError
from macaron.harness.pool.references import References, Several

LOADERS: Mapping[str, Callable[[str], Environment]] = {
    "verifiers": load_verifiers,
    "harbor": load_harbor,
}
"""What stands before the colon of a name -> what loads the rest of it."""


ROUTED = ("routing", "routing-languages")
"""The environments that the router answers, and no specialist."""


@cache
def environments() -> dict[str, Environment]:
    """Name -> environment: those that fill the problem bank, shipped and of installed packages.

    Raises:
        ConfigError: an installed environment cannot be loaded, or takes a name that is taken.
    """
    turns = (english(), other_languages())
    shipped: tuple[Environment, ...] = (Chat(), Agent(), Coding(), GenUI(), *turns)
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


@cache
def worlds() -> dict[str, WorldEnvironment]:
    """Name -> shipped environment with tools; the problem bank takes none of them by itself."""
    shipped: tuple[WorldEnvironment, ...] = (Orders(), Offers())
    return {made.name: made for made in shipped}


@cache
def families() -> dict[str, Environment]:
    """Name -> shipped family beyond the first; the problem bank takes none of them by itself."""
    return {made.name: made for made in (family() for family in FAMILIES)}


def environment(name: str) -> Environment:
    """The environment of that name.

    Raises:
        ConfigError: there is none, or what it names cannot be loaded.
    """
    known = {**worlds(), **families(), **environments()}
    if name in known:
        return known[name]
    kind, colon, rest = name.partition(":")
    if colon and kind in LOADERS:
        return LOADERS[kind](rest)
    loaders = ", ".join(f"{kind}:..." for kind in LOADERS)
    raise ConfigError(
        f"no environment {name!r}", mend=f"there are {', '.join(known)}, and {loaders}"
    )


def references() -> References:
    """The held-out references of all environments that offer some."""
    offered = {**worlds(), **environments()}.values()
    return Several([cast(References, made) for made in offered if hasattr(made, "references")])


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
