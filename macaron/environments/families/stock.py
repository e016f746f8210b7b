"""Stock (L1): tools that fail at first, and a sensor that lies and can be caught at it.

A reading is true only if its check is the sum of its digits; a false one is the likelier the less
one looks. Filed is filed: a wrong amount cannot be taken back.
"""

import random
from collections.abc import Sequence

from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import names
from macaron.environments.splits import Content, Parts, draw, pick, user
from macaron.environments.toolkit import tool, verify_untouched
from macaron.harness.tools import Tool, ToolFault

MIX = {"fails": 1.0, "lies": 1.0, "both": 1.0}
MOST = 3
"""Failures, and false readings, before a true one."""
ASKS = (
    "Read the sensor for {}, and file what is there.",
    "How much {} is there? Read the sensor and file it.",
    "File the amount of {} by the sensor.",
    "The amount of {} must be filed; the sensor knows it.",
)
RULES = (
    "A reading is true only if its check is the sum of its digits. When in doubt, read again.",
    "The sensor may err: the sum of the digits must be the check, or you read again.",
    "Trust a reading whose digits add up to its check, and no other; read until there is one.",
)
ENDS = ("Then say the amount.", "Answer with the amount.", "Tell me the amount at the end.")


def check_of(amount: int) -> int:
    """The sum of the digits."""
    return sum(int(digit) for digit in str(amount))


class Store:
    """A sensor and a file, for one episode."""

    def __init__(self, task: Task) -> None:
        data, rng = task.data, random.Random(task.data["seed"])
        self._item, self._amount = data["item"], data["amount"]
        self._failures, self._lies = data["failures"], data["lies"]
        self._rng = rng
        self._filed: list[tuple[str, int]] = []

    def tools(self) -> Sequence[Tool]:
        """read, file."""
        return [tool(self.read), tool(self.file)]

    def read(self, item: str) -> dict[str, int]:
        """Read the sensor for an item: amount and check."""
        if item != self._item:
            raise ToolFault(f"there is no {item!r}")
        if self._failures:
            self._failures -= 1
            raise ToolFault("the sensor does not answer, try again")
        if self._lies:
            self._lies -= 1
            false = self._rng.choice([n for n in range(100, 1000) if n != self._amount])
            return {"amount": false, "check": check_of(false) + self._rng.choice((-2, -1, 1, 2))}
        return {"amount": self._amount, "check": check_of(self._amount)}

    def file(self, item: str, amount: int) -> str:
        """File an item's amount; it cannot be changed."""
        self._filed.append((item, amount))
        return "filed"

    def score(self, answer: str) -> Score:
        """1 where exactly the true amount was filed, once, and is the answer."""
        state = float(self._filed == [(self._item, self._amount)])
        said = float(answer.strip().removesuffix(".") == str(self._amount))
        return Score(state * said, {"state": state, "answer": said})


class Stock:
    """Amounts behind a bad sensor."""

    name = "stock"
    specialist = "L1"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """An item to be filed; the kind says whether the sensor fails, lies, or both."""
        kind = pick(rng, MIX, kind)

        def phrases() -> Parts:
            # The kind is not to be seen in the prompt, so it is no part of the phrase.
            return rng.randrange(4), rng.randrange(3), rng.randrange(3)

        def build(parts: Parts) -> Content:
            return _build(rng, split, kind, parts)

        content = draw(split, self.name, phrases, build)
        return Task(self.name, self.specialist, kind, split, *content)

    def world(self, task: Task) -> Store:
        """The store as the task finds it."""
        return Store(task)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """What answers without a single deed are worth: 0."""
        return verify_untouched(self, tasks, answers)


def _build(rng: random.Random, split: Split, kind: str, parts: Parts) -> Content:
    ask, rule, end = (int(part) for part in parts)
    item, amount = rng.choice(names(split)), rng.randint(100, 999)
    data = {
        "item": item,
        "amount": amount,
        "failures": rng.randint(1, MOST) if kind != "lies" else 0,
        "lies": rng.randint(1, MOST) if kind != "fails" else 0,
        "seed": rng.getrandbits(32),
    }
    text = f"{ASKS[ask].format(item)} {RULES[rule]} {ENDS[end]}"
    return (user(text),), str(amount), data
