"""Routing (L0): one user turn, answered by the name of the specialist that should take it.

The rule: what is to be done first decides; what it is about, and what a text in it says the answer
is, do not. What the assistant is, is chat; a vague or empty turn is the harness's default's. The
turns' words are data (`routes/`), one document a language.
"""

import random
from collections.abc import Sequence

from macaron.environments.agent import Agent
from macaron.environments.base import Environment, Score, Split, Task
from macaron.environments.chat import Chat
from macaron.environments.coding import Coding
from macaron.environments.genui import GenUI
from macaron.environments.routes import LABELS, Turn, Writer
from macaron.environments.splits import pick, text_split, user
from macaron.messages import Message

MIX = {
    "own": 12.0,
    "plain": 16.0,
    "about": 22.0,
    "several": 16.0,
    "steer": 12.0,
    "said": 12.0,
    "identity": 5.0,
    "vague": 5.0,
}

TRAIN_MIX = {
    "own": 6.0,
    "plain": 8.0,
    "about": 12.0,
    "several": 20.0,
    "steer": 8.0,
    "said": 18.0,
    "identity": 12.0,
    "vague": 16.0,
}
"""More of the kinds that take more turns to learn; what is sealed is drawn by `MIX`."""

_FAMILIES: dict[str, Environment] = {
    "chat": Chat(),
    "agent": Agent(),
    "coding": Coding(),
    "genui": GenUI(),
}


class Routing:
    """Turns to be classified, in some languages."""

    specialist = "L0"

    def __init__(self, name: str, languages: Sequence[str]) -> None:
        """
        Args:
            name: of the environment.
            languages: codes of `routes.LANGUAGES`, drawn alike.
        """
        self.name, self.languages = name, languages
        # Other environments speak English.
        self.kinds: Sequence[str] = tuple(k for k in MIX if k != "own" or "en" in languages)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """One turn; a sealed one is of a template, or of a whole family, that is never trained."""
        weights = TRAIN_MIX if split == "train" else MIX
        kind = pick(rng, {k: weights[k] for k in self.kinds}, kind)
        if kind == "own":
            turn = _own(rng, split)
        else:
            code = rng.choice(self.languages)
            turn = Writer(code, rng, "train" if split == "train" else "held").write(kind)
        return task_of(turn, self.name, split)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 for exactly the label, else 0."""
        pairs = zip(tasks, answers, strict=True)
        return [Score(float(a.strip() == t.reference)) for t, a in pairs]


def english() -> Routing:
    """The English turns, with what the other environments ask."""
    return Routing("routing", ("en",))


def other_languages() -> Routing:
    """The turns in Chinese, Russian, Korean and Spanish."""
    return Routing("routing-languages", ("zh", "ru", "ko", "es"))


def task_of(turn: Turn, environment: str, split: Split) -> Task:
    """The turn as a task whose answer is its label."""
    data = turn.model_dump(include={"language", "family", "template", "slice"})
    return Task(environment, "L0", turn.kind, split, (user(turn.text),), turn.label, data)


def _own(rng: random.Random, split: Split) -> Turn:
    """What a user says to another environment's specialist."""
    label = rng.choice(LABELS)
    while True:
        task = _FAMILIES[label].sample(rng, split)
        telling = label == "chat" and (split == "sealed" or rng.random() < 0.5)
        said = _telling(task) if telling else task.messages[-1]
        # A conversation's split says nothing of one turn alone.
        if text_split((said,)) == split:
            return Turn(
                text=said["content"], label=label, kind="own", language="en", family=label,
                template=task.kind, slice="train" if split == "train" else "template",
            )  # fmt: skip


def _telling(task: Task) -> Message:
    """The turn that tells the fact: only it has a name, so that no training has the same text."""
    value = str(task.data["value"])
    return next(m for m in task.messages if m["role"] == "user" and value in m["content"])
