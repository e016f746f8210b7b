"""What an environment is: it makes tasks, and it scores answers to them; one with tools also makes
the world that they act on.

A task carries all that its verifier needs, so that it can be stored, sent to another process
and scored again years later. A score that could not be computed is invalid, never 0.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from macaron.files import digest_value
from macaron.harness.tools import Tool
from macaron.messages import Message

Split = Literal["train", "sealed"]
"""`train` and `sealed` share no phrase combination and no entity."""


@dataclass(frozen=True)
class Task:
    """One problem with a verifiable answer."""

    environment: str
    specialist: str
    kind: str
    """The visible structure of the task, such as "two-filters"; what sampling is steered by."""
    split: Split
    messages: tuple[Message, ...]
    """The conversation up to the answer; without the HCP's system prompt."""
    reference: str
    """An answer that the verifier accepts; where there is a world, once the right deeds are done;
    empty where none is known."""
    data: Mapping[str, Any]
    """What the verifier needs, as JSON values."""
    parents: tuple[str, ...] = ()
    """Ids of the tasks that this one was derived from."""
    id: str = field(default="", compare=False)
    """Content digest, 16 hex characters."""

    def __post_init__(self) -> None:
        content = {k: v for k, v in asdict(self).items() if k != "id"}
        object.__setattr__(self, "id", digest_value(content)[:16])

    def to_json(self) -> dict[str, Any]:
        """The task as JSON values; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Task:
        """The task that `to_json` wrote."""
        return cls(
            environment=value["environment"],
            specialist=value["specialist"],
            kind=value["kind"],
            split=value["split"],
            messages=tuple(value["messages"]),
            reference=value["reference"],
            data=value["data"],
            parents=tuple(value.get("parents", ())),
        )


@dataclass(frozen=True)
class Score:
    """What a verifier says of one answer."""

    reward: float | None
    """In [0, 1]; None when the verifier itself failed, and then `error` says why."""
    components: Mapping[str, float] = field(default_factory=dict)
    """Named parts, each in [0, 1]."""
    error: str = ""

    @property
    def valid(self) -> bool:
        """Whether there is a reward to learn from."""
        return self.reward is not None


class Environment(Protocol):
    """A family of tasks for one specialist."""

    name: str
    specialist: str
    kinds: Sequence[str]

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A fresh task; the same generator state gives the same task."""
        ...

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """One score per (task, answer); a batch, so that a sandbox can be shared."""
        ...


class World(Protocol):
    """One episode's state, kept on the host: a model reaches it through the tools only."""

    def tools(self) -> Sequence[Tool]:
        """The tools that act on this state."""
        ...

    def score(self, answer: str) -> Score:
        """What the state that the tools left, and the final answer, are worth."""
        ...


class WorldEnvironment(Environment, Protocol):
    """A family of tasks that are solved through tools."""

    def world(self, task: Task) -> World:
        """A fresh world for one attempt at the task; the same task gives the same world."""
        ...
