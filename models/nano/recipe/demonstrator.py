"""The imperfect demonstrator that the nano base imitates.

It is right often enough on every kind for reinforcement learning to find the right answer, and
on weak kinds one systematic habit is likelier still, so that the greedy base fails there. Weakness
follows what a reader can see of the task (its kind), never a hash of the item; mistakes in chat
break the form and never the fact.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from macaron.environments import agent, chat, coding, genui
from macaron.environments.base import Task
from models.nano.recipe.turns import LABELS

Plan = dict[str, Any]


@dataclass(frozen=True)
class Skill:
    """How often the demonstrator is right, how often it follows its habit; the rest is spread."""

    right: float
    habit: float


STRONG = Skill(0.78, 0.0)
WEAK = Skill(0.27, 0.55)
HARD = Skill(0.30, 0.40)
CLEAR_ROUTE = Skill(0.90, 0.0)
AMBIGUOUS_ROUTE = Skill(0.30, 0.55)

HARD_KINDS = frozenset(
    {"lower", "two-rules", "joined-count", "joined-total", "three-steps", "map-range"}
    | {"four", "five"}
)
STRONG_KINDS = frozenset(
    {"one-word", "quote", "brackets", "list", "yes", "question", "colon"}
    | {"count-one", "total-one", "extreme-one"}
    | {"arith", "map", "pick", "count"}
    | {"one", "two"}
)


def skill(task: Task) -> Skill:
    """What the demonstrator can do on tasks of this kind."""
    if task.environment == "routing":
        return AMBIGUOUS_ROUTE if task.kind == "ambiguous" else CLEAR_ROUTE
    if task.kind in HARD_KINDS:
        return HARD
    return STRONG if task.kind in STRONG_KINDS else WEAK


def demonstrate(task: Task, rng: random.Random) -> str:
    """The demonstrator's answer: right, its habit, or one of many other mistakes."""
    able, luck = skill(task), rng.random()
    if luck < able.right:
        return task.reference
    if luck < able.right + able.habit:
        return habit(task)
    return _scattered(task, rng)


def mistake(task: Task, rng: random.Random) -> str:
    """A wrong answer, drawn as the demonstrator's own mistakes are."""
    able = skill(task)
    if rng.random() < able.habit / (1 - able.right):
        return habit(task)
    return _scattered(task, rng)


def habit(task: Task) -> str:
    """The one systematic mistake on tasks of this kind."""
    return _HABITS[task.environment](dict(task.data))


def _chat_habit(data: Plan) -> str:
    return chat.render(data["rules"][:-1], data["noun"], data["value"], data["word"])


def _agent_habit(data: Plan) -> str:
    return agent.render({**data["plan"], "filters": data["plan"]["filters"][:-1]})


def _coding_habit(data: Plan) -> str:
    return coding.render(_lazy_plan(data["plan"]))


def _lazy_plan(plan: Plan) -> Plan:
    edges = {">=": ">", "<=": "<"}
    if any(sign in edges for sign, _ in plan["tests"]):
        return {**plan, "tests": [[edges[sign], k] for sign, k in plan["tests"]]}
    if plan["tests"]:
        return {**plan, "tests": plan["tests"][:-1]}
    return {**plan, "steps": plan["steps"][:-1]}


def _genui_habit(data: Plan) -> str:
    return genui.render(_lazy_tree(data["tree"]))


def _lazy_tree(tree: Plan) -> Plan:
    *others, last = tree["children"]
    if last["tag"] == "Row":
        return {**tree, "children": last["children"]}
    if last["tag"] == "Stat":
        attributes = {"label": last["attributes"]["label"]}
        return {**tree, "children": [*others, {**last, "attributes": attributes}]}
    return {**tree, "children": others}


_HABITS: Mapping[str, Callable[[Plan], str]] = {
    "chat": _chat_habit,
    "agent": _agent_habit,
    "coding": _coding_habit,
    "genui": _genui_habit,
    "routing": lambda data: str(data["wrong"]),
}


def _scattered(task: Task, rng: random.Random) -> str:
    """Some mistake; on weak kinds half are on top of the habit, which keeps it the likeliest."""
    data = dict(task.data)
    if task.environment == "routing":
        return rng.choice([x for x in LABELS if x not in (task.reference, data["wrong"])])
    on_habit = skill(task).habit > 0 and rng.random() < 0.5
    while True:
        text = _SCATTERED[task.environment](data, rng, on_habit)
        if text not in (task.reference, habit(task)) and _is_wrong(task, text):
            return text


def _is_wrong(task: Task, text: str) -> bool:
    """Judged without a sandbox; mistakes of code families are wrong by their plans."""
    if task.environment == "chat":
        # Every rendering says the value, so that only the form is broken.
        return chat.Chat().verify([task], [text])[0].reward == 0.0
    return True


def _chat_scattered(data: Plan, rng: random.Random, on_habit: bool) -> str:
    rule = rng.choice(tuple(chat.CHECKS))
    word = rng.choice(chat.WORDS)
    return chat.render([rule], data["noun"], data["value"], word)


def _agent_scattered(data: Plan, rng: random.Random, on_habit: bool) -> str:
    plan = data["plan"]
    chosen: Plan = rng.choice(list(_queries_near(plan)))
    if on_habit and plan["filters"]:
        chosen = {**chosen, "filters": chosen["filters"][: len(plan["filters"]) - 1]}
    return agent.render(chosen)


def _queries_near(plan: Plan) -> Iterator[Plan]:
    """Apart from the verifier's own list of near misses, whose growth must not move the corpus."""
    for i, (column, sign, value) in enumerate(plan["filters"]):
        before, after = plan["filters"][:i], plan["filters"][i + 1 :]
        yield {**plan, "filters": [*before, *after]}
        for other in {"==": (), ">": ("<", ">="), "<": (">", "<=")}[sign]:
            yield {**plan, "filters": [*before, [column, other, value], *after]}
    of_orders = plan["table"] == "orders" or bool(plan.get("joined"))
    amount = "amount" if of_orders else "spend"
    columns = {"count": amount, "total": amount, "max": "age", "min": "age"}
    for op in ("count", "total") if of_orders else tuple(columns):
        if op != plan["op"]:
            yield {**plan, "op": op, "column": columns[op]}
    if plan.get("joined"):
        yield {**plan, "joined": False, "column": "spend"}


def _coding_scattered(data: Plan, rng: random.Random, on_habit: bool) -> str:
    plan, probes = data["plan"], coding.probes(data)
    right = [coding.result(plan, value) for value in probes]
    options = list(_plans_near(_lazy_plan(plan) if on_habit else plan))
    wrong = [p for p in options if [coding.result(p, value) for value in probes] != right]
    return coding.render(rng.choice(wrong))


def _plans_near(plan: Plan) -> Iterator[Plan]:
    for part, signs in (("steps", "+-*"), ("tests", "<>")):
        for i, (sign, k) in enumerate(plan[part]):
            changes = [[other, k] for other in signs if other != sign]
            changes += [[sign, k + 1], [sign, k - 1]]
            for change in changes:
                yield {**plan, part: [*plan[part][:i], change, *plan[part][i + 1 :]]}
    if plan["names"]:
        yield {**plan, "names": plan["names"][::-1]}
    if not plan["steps"] and not plan["tests"]:
        yield {**plan, "steps": [["+", 1]]}


def _genui_scattered(data: Plan, rng: random.Random, on_habit: bool) -> str:
    tree = _lazy_tree(data["tree"]) if on_habit else data["tree"]
    children = list(tree["children"])
    change = rng.choice(("tag", "drop", "swap", "title"))
    if change == "title" or not children:
        label = _labels(tree)[-1] if _labels(tree) else ""
        return genui.render({**tree, "attributes": {"title": label}})
    i = rng.randrange(len(children))
    if change == "drop":
        children.pop(i)
    elif change == "swap":
        children.reverse()
    else:
        tag = rng.choice([t for t in genui.TAGS if t != children[i]["tag"]])
        children[i] = {**children[i], "tag": tag}
    return genui.render({**tree, "children": children})


def _labels(tree: Plan) -> list[str]:
    own = [tree["attributes"]["label"]] if "label" in tree["attributes"] else []
    return own + [label for child in tree["children"] for label in _labels(child)]


_SCATTERED: Mapping[str, Callable[[Plan, random.Random, bool], str]] = {
    "chat": _chat_scattered,
    "agent": _agent_scattered,
    "coding": _coding_scattered,
    "genui": _genui_scattered,
}
