"""The few routing turns that the nano base was pretrained on, and their raw prompt.

Never changed: another corpus would be another base. What the router is trained and judged on since
is `macaron.environments.routing`.
"""

import random
from collections.abc import Sequence
from typing import Any

from macaron.environments.agent import Agent
from macaron.environments.base import Environment, Score, Split, Task
from macaron.environments.chat import Chat
from macaron.environments.coding import Coding
from macaron.environments.entities import names
from macaron.environments.genui import GenUI
from macaron.environments.splits import Content, Parts, draw, pick, text_split, user
from macaron.harness.template import template_of
from macaron.hcp.document import HCP
from macaron.messages import Message

LABELS = ("chat", "agent", "coding", "genui")
MIX = {"own": 40.0, "plain": 30.0, "ambiguous": 30.0}

ASKS = {
    "chat": ("Tell me about", "Talk to me about", "Chat with me about", "Let us speak of"),
    "agent": (
        "Look up the sales for",
        "Count the orders for",
        "Search the data for",
        "Query the tables for",
    ),
    "coding": (
        "Write a function for",
        "Write code for",
        "Program a method for",
        "Fix the Python for",
    ),
    "genui": ("Make a card for", "Draw a page for", "Show a form for", "Build a screen for"),
}
THINGS = {
    "chat": ("our talk with {}", "my words to {}", "the story of {}"),
    "agent": ("the orders of {}", "the sales of {}", "the customer {}"),
    "coding": ("the function {}", "the code of {}", "the method {}"),
    "genui": ("the card {}", "the page {}", "the form {}"),
}
FORMS = (
    "{ask} {thing}.",
    "Please: {ask} {thing}.",
    "About {thing}: {ask} it.",
    "{ask} {thing} now.",
)

_FAMILIES: dict[str, Environment] = {
    "chat": Chat(),
    "agent": Agent(),
    "coding": Coding(),
    "genui": GenUI(),
}


class PretrainingTurns:
    """Turns to be classified."""

    name = "routing"
    specialist = "L0"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """One turn: a family's own prompt, a plainly worded one, or one that names two fields."""
        kind = pick(rng, MIX, kind)
        if kind == "own":
            messages, reference, data = _own(rng, split)
        else:
            messages, reference, data = draw(
                split, self.name, lambda: _phrases(rng, kind), lambda p: _build(rng, split, p)
            )
        return Task(self.name, self.specialist, kind, split, messages, reference, data)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 for exactly the label, else 0."""
        pairs = zip(tasks, answers, strict=True)
        return [Score(float(a.strip() == t.reference)) for t, a in pairs]


def _own(rng: random.Random, split: Split) -> Content:
    label = rng.choice(LABELS)
    while True:
        # A conversation's split says nothing of its last turn alone.
        last = _FAMILIES[label].sample(rng, split).messages[-1]
        if text_split((last,)) == split:
            return (last,), label, {"wrong": ""}


def _phrases(rng: random.Random, kind: str) -> Parts:
    label = rng.choice(LABELS)
    about = rng.choice([x for x in LABELS if x != label]) if kind == "ambiguous" else label
    return label, about, rng.randrange(4), rng.randrange(3), rng.randrange(4)


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    label, about = str(parts[0]), str(parts[1])
    ask = ASKS[label][int(parts[2])]
    thing = THINGS[about][int(parts[3])].format(rng.choice(names(split)))
    text = FORMS[int(parts[4])].format(ask=ask, thing=thing)
    return (user(text),), label, {"wrong": about if about != label else ""}


def raw_prompt(tokenizer: Any, hcp: HCP, messages: Sequence[Message]) -> list[int]:
    """The turn as it was put to the base: bare, where the router's prompt now quotes it."""
    system: Message = {"role": "system", "content": hcp.router.system}
    return template_of(tokenizer).start([system, messages[-1]])
