"""The agent's world: plans (what a question asks) and random databases that tell plans apart.

The databases of a plan are chosen so that no constant and no plan with a filter dropped, turned
round or moved to its edge gives the right output on all of them.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any

from macaron.environments.entities import NAMES

Row = dict[str, Any]
Database = dict[str, list[Row]]
Filter = list[Any]
"""[column, comparison, value]; comparisons are ==, > and <."""

DATABASES = 3

_COMPARE = {
    "==": lambda a, b: a == b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
}


def passes(row: Row, filters: list[Filter]) -> bool:
    """Whether the row passes every filter."""
    return all(_COMPARE[sign](row[column], value) for column, sign, value in filters)


def answer(plan: Mapping[str, Any], database: Database) -> str:
    """What a right program prints for the plan: {op, column, table, filters, [joined]}."""
    rows = [row for row in database[plan["table"]] if passes(row, plan["filters"])]
    if plan.get("joined"):
        known = {row["name"] for row in rows}
        rows = [row for row in database["orders"] if row["customer"] in known]
    op, column = plan["op"], plan["column"]
    if op == "count":
        return str(len(rows))
    if op == "total":
        return str(sum(row[column] for row in rows))
    if not rows:
        return ""
    best = max if op == "max" else min
    return str(best(rows, key=lambda row: row[column])["name"])


def mutants(plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Plans that are nearly the plan: the mistakes that the databases must show."""
    for i, (column, sign, value) in enumerate(plan["filters"]):
        rest = plan["filters"][:i], plan["filters"][i + 1 :]
        yield {**plan, "filters": [*rest[0], *rest[1]]}
        changes = [] if sign == "==" else [["<>"["<>".index(sign) - 1], value]]
        changes += [] if sign == "==" else [[sign, value - 1], [sign, value + 1]]
        for other in changes:
            yield {**plan, "filters": [*rest[0], [column, *other], *rest[1]]}
    # A tuple: a set's order differs between processes, and the demonstrator draws from this.
    for op in ("count", "total", "max", "min"):
        if op == plan["op"]:
            continue
        if op in ("max", "min") and (plan["table"] == "orders" or plan.get("joined")):
            continue
        of_orders = plan["table"] == "orders" or plan.get("joined")
        column = "age" if op in ("max", "min") else "amount" if of_orders else "spend"
        yield {**plan, "op": op, "column": column}
    if plan.get("joined"):
        yield {**plan, "joined": False, "column": "spend"}


def _off_by_one(plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for i, (column, sign, value) in enumerate(plan["filters"]):
        for moved in (value - 1, value + 1) if sign != "==" else ():
            filters = [*plan["filters"][:i], [column, sign, moved], *plan["filters"][i + 1 :]]
            yield {**plan, "filters": filters}


def databases(plan: Mapping[str, Any], seed: int) -> list[Database]:
    """Three databases, the same for the same plan and seed."""
    rng = random.Random(seed)
    wrong = [*mutants(plan), *_off_by_one(plan)]
    while True:
        made = [_database(rng, plan) for _ in range(DATABASES)]
        right = [answer(plan, database) for database in made]
        if len(set(right)) < DATABASES or "" in right:
            continue
        if all([answer(m, database) for database in made] != right for m in wrong):
            return made


def _database(rng: random.Random, plan: Mapping[str, Any]) -> Database:
    near: dict[str, list[Any]] = {}
    for column, sign, value in plan["filters"]:
        near[column] = [value] if sign == "==" else [value - 1, value, value + 1]
    people = rng.sample(NAMES, rng.randint(6, 9))
    customers = [
        {
            "name": name,
            "city": _near(rng, near.get("city"), rng.choice(NAMES)),
            "age": _near(rng, near.get("age"), rng.randint(18, 90)),
            "spend": _near(rng, near.get("spend"), rng.randint(1, 99)),
        }
        for name in people
    ]
    if plan["op"] in ("max", "min"):
        # A tie would leave two right answers to "who is the oldest".
        ages = rng.sample(range(18, 91), len(customers))
        customers = [{**row, "age": age} for row, age in zip(customers, ages, strict=True)]
    orders = [
        {
            "customer": rng.choice(people),
            "item": _near(rng, near.get("item"), rng.choice(NAMES)),
            "amount": _near(rng, near.get("amount"), rng.randint(1, 99)),
        }
        for _ in range(rng.randint(6, 10))
    ]
    return {"customers": customers, "orders": orders}


def _near(rng: random.Random, values: list[Any] | None, other: Any) -> Any:
    return rng.choice(values) if values and rng.random() < 0.6 else other
