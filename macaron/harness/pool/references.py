"""Held-out references: what a tool is tried on, and no model ever sees.

The host makes them, from a seed that doesn't exist before the tool's source does; the arguments go
into the sandbox, the expected values stay outside.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from macaron.errors import ConfigError
from macaron.harness.tools import Tool


@dataclass(frozen=True)
class Purpose:
    """What a tool can be written for: all that a model knows of the references."""

    name: str
    """The tool's too."""
    description: str
    """What the function must do; also what later sessions read of the tool."""
    parameters: Mapping[str, Any]
    """JSON Schema of an object: the arguments that it is called with."""
    tools: tuple[str, ...] = ()
    """Names of the session's tools that the function may call."""


@dataclass(frozen=True)
class Reference:
    """One call and how to judge what comes back."""

    arguments: Mapping[str, Any]
    """JSON values by name."""
    expected: Any = None
    """The JSON value that is right, unless `check` says."""
    check: Callable[[Any], bool] | None = None
    """A verifier of the value, where more than one is right, or of the state that the tools were
    left in. It must take any JSON value."""
    tools: Sequence[Tool] = ()
    """The tools that the function may call, on a world of this reference's own."""

    def accepts(self, found: Any) -> bool:
        """Whether the value, made of JSON's own types, is right."""
        return self.check(found) is True if self.check else same(found, plain(self.expected))


class References(Protocol):
    """Who knows right answers: an environment, or a service that is tried anew."""

    def purposes(self) -> Sequence[Purpose]:
        """What there are references for."""
        ...

    def references(self, name: str, rng: random.Random, n: int) -> Sequence[Reference]:
        """n fresh references; the same generator state gives the same ones."""
        ...


@dataclass(frozen=True)
class Solved:
    """References for one purpose: a maker of arguments, and a function of ours that is right."""

    purpose: Purpose
    make: Callable[[random.Random], Mapping[str, Any]]
    solve: Callable[..., Any]

    def purposes(self) -> Sequence[Purpose]:
        """The one."""
        return (self.purpose,)

    def references(self, name: str, rng: random.Random, n: int) -> Sequence[Reference]:
        """Each with the value that `solve` gives."""
        made = [self.make(rng) for _ in range(n)]
        return [Reference(arguments, self.solve(**arguments)) for arguments in made]


class Several:
    """References of several sources as one.

    Args:
        sources: no two for one name.
    """

    def __init__(self, sources: Sequence[References]) -> None:
        self._by_name: dict[str, tuple[Purpose, References]] = {}
        for source in sources:
            for purpose in source.purposes():
                if purpose.name in self._by_name:
                    raise ConfigError(
                        "two sources have references for it",
                        where=f"tool {purpose.name!r}",
                        mend="rename it in one of them",
                    )
                self._by_name[purpose.name] = (purpose, source)

    def purposes(self) -> Sequence[Purpose]:
        """All, in the order of the sources."""
        return [purpose for purpose, _ in self._by_name.values()]

    def references(self, name: str, rng: random.Random, n: int) -> Sequence[Reference]:
        """Those of the name's source."""
        return self._by_name[name][1].references(name, rng, n)


def same(found: Any, expected: Any) -> bool:
    """Equal in value and in type, at every depth; numbers with a fraction to nine digits.

    1, 1.0 and True are three values; NaN is right nowhere.
    """
    if type(found) is not type(expected):
        return False
    if isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(same(found[k], expected[k]) for k in found)
    return bool(found == expected)


def plain(value: Any) -> Any:
    """The value with tuples as lists, as it would come back from the sandbox."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def guesses(references: Sequence[Reference]) -> dict[str, float]:
    """Share of references that a function would pass which computes nothing.

    For tests of references: `k` of them in a row let a guess with the share `s` pass with the
    probability `s ** k`.

    Returns:
        Guess -> share: each constant, and each argument given back.
    """
    constants = {repr(plain(r.expected)): plain(r.expected) for r in references if not r.check}
    names = sorted({name for r in references for name in r.arguments})
    guessed = {f"return {text}": [value] * len(references) for text, value in constants.items()}
    for name in names:
        guessed[f"return {name}"] = [plain(r.arguments.get(name)) for r in references]
    return {
        text: sum(r.accepts(v) for r, v in zip(references, values, strict=True)) / len(references)
        for text, values in guessed.items()
    }
