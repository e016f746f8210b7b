"""Agent (L1): a business question answered by one to three lines of Python over tool functions.

The code runs in the sandbox against three random databases; what it prints is compared, outside,
with what the question's plan gives, and no constant is right on two of them.
"""

import json
import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from macaron.environments.answers import code_of
from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import names, numbers
from macaron.environments.splits import Content, Parts, draw, pick, user
from macaron.environments.tables import Database, Filter, answer, databases
from macaron.files import canonical_json
from macaron.harness.sandbox import Job, Result, Sandbox, shared_sandbox

MIX = {
    "count-one": 14.0,
    "total-one": 14.0,
    "extreme-one": 14.0,
    "count-two": 15.0,
    "total-two": 15.0,
    "extreme-two": 16.0,
    "joined-count": 6.0,
    "joined-total": 6.0,
}
SCHEMA = {
    "customers": "customers(): name, city, age, spend",
    "orders": "orders(): customer, item, amount",
}
HEADS = {
    ("customers", "count"): (
        "How many customers {}?",
        "Count the customers {}.",
        "Give the number of customers {}.",
    ),
    ("customers", "total"): (
        "Add up the spend of customers {}.",
        "Sum the spend of customers {}.",
        "How much did customers {} spend?",
    ),
    ("customers", "max"): (
        "Who is the oldest customer {}?",
        "Name the oldest customer {}.",
        "Find the oldest customer {}.",
    ),
    ("customers", "min"): (
        "Who is the youngest customer {}?",
        "Name the youngest customer {}.",
        "Find the youngest customer {}.",
    ),
    ("orders", "count"): (
        "How many orders {}?",
        "Count the orders {}.",
        "Give the number of orders {}.",
    ),
    ("orders", "total"): (
        "Add up the amount of orders {}.",
        "Sum the amount of orders {}.",
        "How much are the orders {}?",
    ),
    ("joined", "count"): (
        "How many orders are by customers {}?",
        "Count the orders by customers {}.",
        "Give the number of orders by customers {}.",
    ),
    ("joined", "total"): (
        "Add up the orders by customers {}.",
        "Sum the orders by customers {}.",
        "How much did customers {} order?",
    ),
}
FILTERS = {
    ("city", "=="): ("from {}", "in {}"),
    ("age", ">"): ("over {}", "older than {}"),
    ("age", "<"): ("under {}", "younger than {}"),
    ("spend", ">"): ("spending over {}", "who spent over {}"),
    ("spend", "<"): ("spending under {}", "who spent under {}"),
    ("item", "=="): ("of {}", "for {}"),
    ("amount", ">"): ("above {}", "larger than {}"),
    ("amount", "<"): ("below {}", "smaller than {}"),
}
COLUMNS = {
    "customers": ("city", "age"),
    "orders": ("item", "amount"),
    # "The oldest over 30" would be the oldest of all: an extreme filters on something else.
    "extreme": ("city", "spend"),
}

PRELUDE = """
class Row:
    def __init__(self, values):
        self.__dict__.update(values)
def customers():
    return [Row(r) for r in DATA["customers"]]
def orders():
    return [Row(r) for r in DATA["orders"]]
"""


def render(plan: Mapping[str, Any]) -> str:
    """The program that answers the plan, in the one style that the demonstrator writes."""
    tests = " and ".join(
        f'r.{c} {s} "{v}"' if s == "==" else f"r.{c} {s} {v}" for c, s, v in plan["filters"]
    )
    where = f" if {tests}" if tests else ""
    if plan.get("joined"):
        first = f"names = [r.name for r in customers(){where}]\n"
        joined = "for r in orders() if r.customer in names"
        if plan["op"] == "count":
            return f"{first}print(len([r {joined}]))"
        return f"{first}print(sum(r.amount {joined}))"
    first = f"rows = [r for r in {plan['table']}(){where}]\n"
    last = {
        "count": "print(len(rows))",
        "total": f"print(sum(r.{plan['column']} for r in rows))",
        "max": f"print(max(rows, key=lambda r: r.{plan['column']}).name)",
        "min": f"print(min(rows, key=lambda r: r.{plan['column']}).name)",
    }[plan["op"]]
    return first + last


class Agent:
    """Questions over two tables."""

    name = "agent"
    specialist = "L1"
    kinds: Sequence[str] = tuple(MIX)

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._sandbox = sandbox

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A question; the kind says what is asked and how many filters there are."""
        kind = pick(rng, MIX, kind)
        messages, reference, data = draw(
            split, self.name, lambda: _phrases(rng, kind), lambda parts: _build(rng, split, parts)
        )
        return Task(self.name, self.specialist, kind, split, messages, reference, data)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 where all three outputs are right, else 0; None where the sandbox failed."""
        worlds = [world(canonical_json(t.data["plan"]), t.data["seed"]) for t in tasks]
        jobs = [
            Job(code_of(text), prelude=PRELUDE, data=tuple(made))
            for text, (made, _) in zip(answers, worlds, strict=True)
        ]
        results = (self._sandbox or shared_sandbox()).run(jobs)
        return [_score(r, right) for r, (_, right) in zip(results, worlds, strict=True)]


def _phrases(rng: random.Random, kind: str) -> Parts:
    what, size = kind.split("-")
    if what == "joined":
        head, op, table = "joined", size, "customers"
    else:
        table = "customers" if what == "extreme" else rng.choice(("customers", "orders"))
        head, op = table, rng.choice(("max", "min")) if what == "extreme" else what
    columns = list(COLUMNS["extreme" if what == "extreme" else table])
    rng.shuffle(columns)
    if size != "two":
        columns = columns[:1]
    filters = []
    for column in columns:
        sign = "==" if column in ("city", "item") else rng.choice((">", "<"))
        filters.append(f"{column}{sign}{rng.randrange(2)}")
    return head, op, rng.randrange(3), *filters


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    head, op = str(parts[0]), str(parts[1])
    filters: list[Filter] = []
    said = []
    for part in parts[3:]:
        column, sign, wording = str(part)[:-2], str(part)[-2], int(str(part)[-1])
        column, sign = (column[:-1], "==") if sign == "=" else (column, sign)
        value = rng.choice(names(split) if sign == "==" else numbers(split, 20, 70))
        filters.append([column, sign, value])
        said.append(FILTERS[column, sign][wording].format(value))
    table = "orders" if head == "orders" else "customers"
    column = {"count": "", "total": "spend" if table == "customers" else "amount"}.get(op, "age")
    plan: dict[str, Any] = {"table": table, "op": op, "column": column, "filters": filters}
    schema = SCHEMA[table]
    if head == "joined":
        plan = {**plan, "column": "" if op == "count" else "amount", "joined": True}
        schema = f"{SCHEMA['customers']}\n{SCHEMA['orders']}"
    question = HEADS[head, op][int(parts[2])].format(" ".join(said))
    data = {"plan": plan, "seed": rng.getrandbits(32)}
    return (user(f"{schema}\n{question}"),), render(plan), data


@lru_cache(maxsize=4096)
def world(plan_json: str, seed: int) -> tuple[list[Database], list[str]]:
    """The databases of a task and the right output on each; cached, as groups share a task."""
    plan = json.loads(plan_json)
    made = databases(plan, seed)
    return made, [answer(plan, database) for database in made]


def _score(result: Result, right: list[str]) -> Score:
    if result.outcome == "invalid":
        return Score(None, error=result.error)
    printed = [output.strip() for output in result.outputs]
    ran = float(result.outcome == "ok")
    return Score(float(bool(ran) and printed == right), {"ran": ran})
