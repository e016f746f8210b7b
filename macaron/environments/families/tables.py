"""Tables (L3): rows made from data in the prompt: as they are, in order, or only some of them.

The tree is compared whole, so that a row too many, too few or out of place does not pass.
"""

import random
from collections.abc import Sequence

from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import names, numbers
from macaron.environments.genui import GenUI, element, render
from macaron.environments.splits import Content, Parts, draw, pick, user

MIX = {"plain": 1.0, "rising": 1.0, "falling": 1.0, "over": 1.0}
ROWS = 4
LEADS = (
    "Make a table {} of {}.",
    "Build a table {} of {}.",
    "Show a table {} with {}.",
    "I need a table {} of {}.",
)
WISHES = {
    "plain": ("Keep the order.", "In this order.", "As they stand."),
    "rising": ("Smallest first.", "From the smallest up.", "Rising."),
    "falling": ("Largest first.", "From the largest down.", "Falling."),
    "over": ("Only those over {}.", "Leave out what is {} or less.", "What is above {} alone."),
}


class Tables:
    """Tables of up to four rows."""

    name = "tables"
    specialist = "L3"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A table to make; the kind says which rows it has, in which order."""
        kind = pick(rng, MIX, kind)

        def phrases() -> Parts:
            return kind, rng.randrange(4), rng.randrange(3)

        content = draw(split, self.name, phrases, lambda parts: _build(rng, split, parts))
        return Task(self.name, self.specialist, kind, split, *content)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 where the tree is the one asked for, else 0."""
        return GenUI().verify(tasks, answers)


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    kind = str(parts[0])
    title, *labels = rng.sample(names(split), ROWS + 1)
    values = _values(rng, split)
    rows = list(zip(labels, values, strict=True))
    # The edge is a row's own number, to tell > from >=; neither all rows nor none are over it.
    edge = sorted(values)[rng.randrange(1, ROWS - 1)]
    kept = {
        "plain": rows,
        "rising": sorted(rows, key=lambda row: row[1]),
        "falling": sorted(rows, key=lambda row: -row[1]),
        "over": [row for row in rows if row[1] > edge],
    }[kind]
    tree = element(
        "Table",
        {"title": title},
        [element("Line", {"label": label, "value": value}) for label, value in kept],
    )
    listed = ", ".join(f"{label} {value}" for label, value in rows)
    wish = WISHES[kind][int(parts[2])].format(edge)
    return (
        (user(f"{LEADS[int(parts[1])].format(title, listed)} {wish}"),),
        render(tree),
        {
            "tree": tree,
            "rows": [list(row) for row in rows],
        },
    )


def _values(rng: random.Random, split: Split) -> list[int]:
    """Distinct numbers, in neither order: else a sort could be left out."""
    while True:
        found = rng.sample(numbers(split, 2, 99), ROWS)
        if sorted(found) not in (found, found[::-1]):
            return found
