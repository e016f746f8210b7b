"""Orders: each of many must be looked up and then, by what was found, refunded or shipped.

The look-up gives a code that only it tells, and the deed takes the code: two dependent calls an
order, which is 48 rounds for 24 orders where each round holds one call, and a loop in code. The
final state is compared on the host; neither constants nor one deed for all leave the right one.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import NAMES, numbers
from macaron.environments.splits import Content, Parts, draw, pick, user
from macaron.environments.toolkit import tool, verify_untouched
from macaron.harness.pool.references import Purpose, Reference
from macaron.harness.tools import Tool, ToolFault

SIZES = (24, 8, 4)
"""Orders in a task; the small ones fit a base with a short context."""
MIX = {f"{rule}-{size}": float(size == 24) for size in SIZES for rule in ("late", "over")}
DECOYS = 3
"""Orders before and after the asked ones, to be left alone."""

RULES = {
    "late": (
        "Refund the late ones, ship the others",
        "The late ones get a refund, the rest is shipped",
        "Ship what is in time and refund what is late",
        "Refund what is late; ship all others",
    ),
    "over": (
        "Refund those over {}, ship the others",
        "Above {} there is a refund, the rest is shipped",
        "Ship what is {} or less and refund what is more",
        "Refund what is above {}; ship all others",
    ),
}
HEADS = (
    "Take the {size} orders from {first} on.",
    "Look up {size} orders, from {first} on.",
    "Here are {size} orders, the first is {first}.",
)
TAILS = (
    "Then say how many you refunded.",
    "Answer with the number of refunds.",
    "At the end, count the refunds.",
)

Deed = Literal["refund", "ship"]

SETTLE = Purpose(
    "settle",
    "Look up `size` orders from number `first` on; refund each that is late or, where `over` is "
    "not null, each of a larger amount; ship the others; return the number of refunds.",
    {
        "type": "object",
        "properties": {
            "first": {"type": "integer"},
            "size": {"type": "integer"},
            "over": {"type": ["integer", "null"]},
        },
        "required": ["first", "size", "over"],
        "additionalProperties": False,
    },
    tools=("find", "refund", "ship"),
)
"""A helper that the task invites to write."""


@dataclass
class Order:
    """One order as the shop knows it."""

    code: str
    late: bool
    amount: int
    deed: Deed | None = field(default=None)


class Shop:
    """The orders of one episode."""

    def __init__(self, task: Task) -> None:
        self._orders = orders(task.data)
        self._by_code = {order.code: order for order in self._orders.values()}
        self._right = right_deeds(task.data)

    def tools(self) -> Sequence[Tool]:
        """find, refund, ship."""
        return [tool(self.find), tool(self.refund), tool(self.ship)]

    def find(self, number: int) -> dict[str, Any]:
        """Look up an order: its code, whether it is late, its amount."""
        if number not in self._orders:
            raise ToolFault(f"there is no order {number}")
        order = self._orders[number]
        return {"code": order.code, "late": order.late, "amount": order.amount}

    def refund(self, code: str) -> str:
        """Refund the order with this code."""
        return self._do(code, "refund")

    def ship(self, code: str) -> str:
        """Ship the order with this code."""
        return self._do(code, "ship")

    def _do(self, code: str, deed: Deed) -> str:
        order = self._by_code.get(code)
        if order is None:
            raise ToolFault(f"no order has the code {code!r}")
        if order.deed is not None:
            raise ToolFault(f"the order {code} is closed")
        order.deed = deed
        return "done"

    def score(self, answer: str) -> Score:
        """1 where every order is as it should be and the answer is the number of refunds."""
        done = {number: order.deed for number, order in self._orders.items()}
        asked = [done[number] == deed for number, deed in self._right.items() if deed]
        state = float(done == self._right)
        said = float(re.findall(r"\d+", answer) == [_refunds(self._right)])
        components = {"state": state, "orders": sum(asked) / len(asked), "answer": said}
        return Score(state * said, components)


def orders(data: Mapping[str, Any]) -> dict[int, Order]:
    """Number -> order, the asked ones among decoys; the same for the same data of a task."""
    rng = random.Random(data["seed"])
    asked = _asked(data)
    shown = range(asked.start - DECOYS, asked.stop + DECOYS)
    edge = data["over"]
    while True:
        codes = rng.sample(NAMES, len(shown))
        made = {
            number: Order(code, rng.random() < 0.5, _amount(rng, edge))
            for number, code in zip(shown, codes, strict=True)
        }
        deeds = {right_deed(data, made[number]) for number in asked}
        # Where the amount decides, the one at the edge must be there to tell > from >=.
        if len(deeds) == 2 and (edge is None or any(made[n].amount == edge for n in asked)):
            return made


def _amount(rng: random.Random, edge: int | None) -> int:
    if edge is not None and rng.random() < 0.5:
        return edge + rng.choice((-1, 0, 1))
    return rng.randint(1, 99)


def right_deed(data: Mapping[str, Any], order: Order) -> Deed:
    """What the task asks to do with an order."""
    edge = data["over"]
    refunded = order.late if edge is None else order.amount > edge
    return "refund" if refunded else "ship"


def right_deeds(data: Mapping[str, Any]) -> dict[int, Deed | None]:
    """Number -> what must have been done at the end; None: nothing."""
    asked = _asked(data)
    return {n: right_deed(data, o) if n in asked else None for n, o in orders(data).items()}


def _asked(data: Mapping[str, Any]) -> range:
    return range(data["first"], data["first"] + data["size"])


class Orders:
    """Many orders, a look-up and a dependent deed for each."""

    name = "orders"
    specialist = "L1"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A task; the kind says by what the deed is decided, and how many orders there are."""
        kind = pick(rng, MIX, kind)
        messages, reference, data = draw(
            split, self.name, lambda: _phrases(rng, kind), lambda parts: _build(rng, split, parts)
        )
        return Task(self.name, self.specialist, kind, split, messages, reference, data)

    def world(self, task: Task) -> Shop:
        """The shop as the task finds it."""
        return Shop(task)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """What answers without a single deed are worth: 0."""
        return verify_untouched(self, tasks, answers)

    def purposes(self) -> Sequence[Purpose]:
        """The helper that a model may write for this shop."""
        return (SETTLE,)

    def references(self, name: str, rng: random.Random, n: int) -> Sequence[Reference]:
        """Small shops of their own, which no session ever meets."""
        kinds = [rng.choice(("late-4", "over-4")) for _ in range(n)]
        return [_reference(self.sample(rng, "sealed", kind)) for kind in kinds]


def _reference(task: Task) -> Reference:
    shop = Shop(task)
    arguments = {name: task.data[name] for name in ("first", "size", "over")}
    return Reference(
        arguments,
        check=lambda found: type(found) is int and shop.score(str(found)).reward == 1.0,
        tools=shop.tools(),
    )


def _phrases(rng: random.Random, kind: str) -> Parts:
    rule, size = kind.split("-")
    return rule, size, rng.randrange(len(HEADS)), rng.randrange(4), rng.randrange(len(TAILS))


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    rule, size = str(parts[0]), int(parts[1])
    first = rng.choice(numbers(split, 10 + DECOYS, 70))
    over = rng.choice(numbers(split, 20, 80)) if rule == "over" else None
    head = HEADS[int(parts[2])].format(size=size, first=first)
    text = f"{head} {RULES[rule][int(parts[3])].format(over)}. {TAILS[int(parts[4])]}"
    data = {"first": first, "size": size, "over": over, "seed": rng.getrandbits(32)}
    return (user(text),), _refunds(right_deeds(data)), data


def _refunds(deeds: Mapping[int, Deed | None]) -> str:
    return str(sum(deed == "refund" for deed in deeds.values()))
