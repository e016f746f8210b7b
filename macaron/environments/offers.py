"""Offers: each must be read before it is taken or left, and only then the next one shows.

The terms are prose in many wordings, such that a word that says yes in one says no in another: a
rule written before they were read takes wrong ones. A decision cannot be taken back, and there is
no looking ahead: whoever decides must have observed first.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import names, numbers
from macaron.environments.splits import Content, Parts, draw, phrase_split, pick, user
from macaron.environments.toolkit import tool, verify_untouched
from macaron.harness.tools import Tool, ToolFault

SIZES = (8, 4)
"""Offers in a task; the small one fits a base with a short context."""
MIX = {f"{wish}-{size}": float(size == 8) for size in SIZES for wish in ("back", "soon", "new")}

WISHES = {
    "back": ("can be sent back", "you may return", "the seller takes back"),
    "soon": ("come within a week", "are here in a week", "arrive this week"),
    "new": ("are unused", "nobody used before", "are brand new"),
}
HEADS = (
    "Accept the offers that {wish}, decline the others.",
    "Of the {size} offers, accept those that {wish} and decline the rest.",
    "Take what will do: offers that {wish}. Decline all others.",
)
TAILS = (
    "Then say how many you accepted.",
    "Answer with the number accepted.",
    "At the end, give the count of accepted ones.",
)
TERMS: Mapping[str, Mapping[bool, Sequence[str]]] = {
    "back": {
        True: (
            "Send it back if you like.",
            "No good? Then we take it again.",
            "Nothing keeps you from a return.",
            "Your money back, no questions.",
            "You are not bound to keep it.",
            "Returns are welcome.",
        ),
        False: (
            "What is sold stays sold.",
            "We do not take it again.",
            "Returns are a thing of the past.",
            "Once yours, always yours.",
            "Your money stays here.",
            "You are bound to keep it.",
        ),
    },
    "soon": {
        True: (
            "On its way to you tomorrow.",
            "No long wait, two days.",
            "It will not take a week.",
            "With you before Sunday.",
            "Not later than in three days.",
            "It is around the corner.",
        ),
        False: (
            "Give us a month.",
            "Two days would be too soon.",
            "It will take a season.",
            "Not before the summer.",
            "You will wait a long while.",
            "Three weeks, not later.",
        ),
    },
    "new": {
        True: (
            "Fresh from the maker.",
            "Not a day in use.",
            "Still in its box.",
            "No one has had it before you.",
            "Never worn, never lent.",
            "You are its first owner.",
        ),
        False: (
            "It was in use for years.",
            "The box is long gone.",
            "Its first owner is glad to part.",
            "Worn, but never broken.",
            "As good as new, they say.",
            "One has lent it now and then.",
        ),
    },
}

END = "There are no more offers."


@dataclass(frozen=True)
class Offer:
    """One offer."""

    text: str
    right: bool
    """Whether to accept it."""


class Market:
    """The offers of one episode, shown one at a time."""

    def __init__(self, task: Task) -> None:
        self._offers = offers(task.data, task.split)
        self._taken: list[bool] = []
        self._shown = False

    def tools(self) -> Sequence[Tool]:
        """read_offer, accept, decline."""
        return [tool(self.read_offer), tool(self.accept), tool(self.decline)]

    def read_offer(self) -> str:
        """Read the offer that is open."""
        if len(self._taken) == len(self._offers):
            return END
        self._shown = True
        return self._offers[len(self._taken)].text

    def accept(self) -> str:
        """Accept the offer that is open, for good."""
        return self._decide(True)

    def decline(self) -> str:
        """Decline the offer that is open, for good."""
        return self._decide(False)

    def _decide(self, taken: bool) -> str:
        if not self._shown:
            raise ToolFault("read the open offer first")
        self._taken.append(taken)
        self._shown = False
        return "done"

    def score(self, answer: str) -> Score:
        """1 where every offer was decided right and the answer is the number to accept."""
        right = [offer.right for offer in self._offers]
        hits = sum(a == b for a, b in zip(self._taken, right, strict=False))
        state = float(self._taken == right)
        said = float(re.findall(r"\d+", answer) == [str(sum(right))])
        return Score(state * said, {"state": state, "offers": hits / len(right), "answer": said})


def offers(data: Mapping[str, Any], split: Split) -> list[Offer]:
    """The task's offers; the same for the same data of a task."""
    rng = random.Random(data["seed"])
    while True:
        made = [_offer(rng, split, data["wish"]) for _ in range(data["size"])]
        if len({offer.right for offer in made}) == 2:
            return made


def _offer(rng: random.Random, split: Split, wish: str) -> Offer:
    """An offer whose pair of terms, what decides and what does not, belongs to the split."""
    other = rng.choice([key for key in TERMS if key != wish])
    while True:
        right, aside = rng.random() < 0.5, rng.random() < 0.5
        terms = rng.choice(TERMS[wish][right]), rng.choice(TERMS[other][aside])
        # Sorted: the same two can stand the other way round, where the other decides.
        if phrase_split("offers", tuple(sorted(terms))) == split:
            break
    said = list(terms)
    rng.shuffle(said)
    what = f"{rng.choice(names(split))} for {rng.choice(numbers(split, 10, 99))}."
    return Offer(" ".join([what, *said]), right)


class Offers:
    """Offers to be read one after another."""

    name = "offers"
    specialist = "L1"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A task; the kind says what is wished for, and how many offers there are."""
        kind = pick(rng, MIX, kind)
        messages, reference, data = draw(
            split, self.name, lambda: _phrases(rng, kind), lambda parts: _build(rng, split, parts)
        )
        return Task(self.name, self.specialist, kind, split, messages, reference, data)

    def world(self, task: Task) -> Market:
        """The market before its first offer."""
        return Market(task)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """What answers without a single decision are worth: 0."""
        return verify_untouched(self, tasks, answers)


def _phrases(rng: random.Random, kind: str) -> Parts:
    wish, size = kind.split("-")
    return wish, size, rng.randrange(3), rng.randrange(3), rng.randrange(3), rng.randrange(2)


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    wish, size = str(parts[0]), int(parts[1])
    head = HEADS[int(parts[2])].format(wish=WISHES[wish][int(parts[3])], size=size)
    buyer = f"{rng.choice(names(split))} is buying. " if parts[5] else ""
    data = {"wish": wish, "size": size, "seed": rng.getrandbits(32)}
    count = sum(offer.right for offer in offers(data, split))
    return (user(f"{buyer}{head} {TAILS[int(parts[4])]}"),), str(count), data
