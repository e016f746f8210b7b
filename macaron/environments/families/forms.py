"""Forms (L3): fields with rules of validation, as TSX-like text.

Text has `min` and `max` letters, a number `low` and `high`, what must be filled in `required`; the
tree is compared whole, so that a rule left out, moved or on the wrong field does not pass.
"""

import random
from collections.abc import Sequence

from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import names, numbers
from macaron.environments.genui import GenUI, Tree, element, render
from macaron.environments.splits import Content, Parts, draw, pick, user

MIX = {"one": 1.0, "two": 2.0, "three": 1.0}
COUNT = {"one": 1, "two": 2, "three": 3}
LEADS = (
    "Make a form {} with {}.",
    "Build a form {} with {}.",
    "Show a form {} that has {}.",
    "I need a form {} with {}.",
)
RULES = {
    "text": ("a field {} of {} to {} letters", "a text {}, {} to {} letters"),
    "number": ("a number {} from {} to {}", "a whole number {} between {} and {}"),
    "must": ("a required field {}", "a field {} that must be filled"),
}


class Forms:
    """Forms of one to three fields."""

    name = "forms"
    specialist = "L3"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A form to make; the kind says how many fields it has."""
        kind = pick(rng, MIX, kind)

        def phrases() -> Parts:
            rules = [f"{rng.choice(tuple(RULES))}/{rng.randrange(2)}" for _ in range(COUNT[kind])]
            return kind, rng.randrange(4), *rules

        content = draw(split, self.name, phrases, lambda parts: _build(rng, split, parts))
        return Task(self.name, self.specialist, kind, split, *content)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 where the tree is the one asked for, else 0."""
        return GenUI().verify(tasks, answers)


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    rules = [str(part).split("/") for part in parts[2:]]
    title, *labels = rng.sample(names(split), len(rules) + 1)
    fields, said = list[Tree](), list[str]()
    for (rule, way), label in zip(rules, labels, strict=True):
        low, high = sorted(rng.sample(numbers(split, 2, 60), 2))
        fields.append(_field(rule, label, low, high))
        said.append(RULES[rule][int(way)].format(label, low, high))
    tree = element("Form", {"title": title}, fields)
    listed = ", ".join(said[:-1]) + (" and " if said[1:] else "") + said[-1]
    return (user(LEADS[int(parts[1])].format(title, listed)),), render(tree), {"tree": tree}


def _field(rule: str, label: str, low: int, high: int) -> Tree:
    if rule == "text":
        return element("Field", {"label": label, "min": low, "max": high})
    if rule == "number":
        return element("Number", {"label": label, "low": low, "high": high})
    return element("Field", {"label": label, "required": 1})
