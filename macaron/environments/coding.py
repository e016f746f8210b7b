"""Coding (L2): the body of one small function, held against hidden probes.

The body runs in the sandbox; its raw results are compared outside, in value and type, with the
plan's, at every edge (k - 1, k, k + 1) and on random inputs.
"""

import random
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from macaron.environments.answers import code_of
from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import names, numbers
from macaron.environments.splits import Content, Parts, draw, pick, user
from macaron.harness.sandbox import Job, Result, Sandbox, shared_sandbox

MIX = {
    "arith": 11.0,
    "map": 11.0,
    "pick": 10.0,
    "count": 10.0,
    "two-steps": 12.0,
    "map-where": 12.0,
    "pick-edge": 11.0,
    "pick-range": 11.0,
    "three-steps": 6.0,
    "map-range": 6.0,
}
STEPS = {
    "+": ("add {}", "plus {}"),
    "-": ("subtract {}", "minus {}"),
    "*": ("multiply by {}", "times {}"),
}
TESTS = {
    ">": ("over {}", "above {}"),
    "<": ("under {}", "below {}"),
    ">=": ("at least {}", "{} or more"),
    "<=": ("at most {}", "{} or less"),
}
LEADS = {
    "steps": ("Take x, {}.", "Start with x, {}.", "With x, {}."),
    "map": ("For each item{}, {}.", "Take each item{}, {}.", "Map each item{}, {}."),
    "count": ("Count the items {}.", "How many items are {}?", "Return the number of items {}."),
    "pick": (
        "Return {a} if x is {t}, else {b}.",
        "Say {a} when x is {t}, else {b}.",
        "Give {a} if x is {t}, or {b}.",
    ),
}

_SIGNS = {
    ">": lambda x, k: x > k,
    "<": lambda x, k: x < k,
    ">=": lambda x, k: x >= k,
    "<=": lambda x, k: x <= k,
    "+": lambda x, k: x + k,
    "-": lambda x, k: x - k,
    "*": lambda x, k: x * k,
}


def result(plan: Mapping[str, Any], value: Any) -> Any:
    """What a right body returns for the value: {form, steps, tests, names}."""
    form = plan["form"]
    if form == "steps":
        for sign, k in plan["steps"]:
            value = _SIGNS[sign](value, k)
        return value
    if form == "pick":
        return plan["names"][0 if _holds(plan, value) else 1]
    kept = [x for x in value if _holds(plan, x)]
    return len(kept) if form == "count" else [result({**plan, "form": "steps"}, x) for x in kept]


def _holds(plan: Mapping[str, Any], x: int) -> bool:
    return all(_SIGNS[sign](x, k) for sign, k in plan["tests"])


def render(plan: Mapping[str, Any]) -> str:
    """The body, in the one style that the demonstrator writes."""
    test = " and ".join(f"x {sign} {k}" for sign, k in plan["tests"])
    where = f" if {test}" if test else ""
    if plan["form"] == "pick":
        yes, no = plan["names"]
        return f'return "{yes}" if {test} else "{no}"' if test else f'return "{yes}"'
    if plan["form"] == "count":
        return f"return len([x for x in xs{where}])"
    steps = [f"x {sign} {k}" for sign, k in plan["steps"]]
    if plan["form"] == "map":
        return f"return [{steps[0] if steps else 'x'} for x in xs{where}]"
    return "\n".join([*(f"x = {s}" for s in steps[:-1]), f"return {steps[-1] if steps else 'x'}"])


class Coding:
    """Function bodies of one to three lines."""

    name = "coding"
    specialist = "L2"
    kinds: Sequence[str] = tuple(MIX)

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._sandbox = sandbox

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A function to write; the kind says its form and how many steps or tests it has."""
        kind = pick(rng, MIX, kind)
        messages, reference, data = draw(
            split, self.name, lambda: _phrases(rng, kind), lambda parts: _build(rng, split, parts)
        )
        return Task(self.name, self.specialist, kind, split, messages, reference, data)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 where every probe's result is right, else 0; None where the sandbox failed."""
        inputs = [probes(t.data) for t in tasks]
        jobs = [
            Job(_module(t.data["plan"], a), call="f", data=tuple(values))
            for t, a, values in zip(tasks, answers, inputs, strict=True)
        ]
        results = (self._sandbox or shared_sandbox()).run(jobs)
        return [
            _score(r, [result(t.data["plan"], v) for v in values])
            for r, t, values in zip(results, tasks, inputs, strict=True)
        ]


def probes(data: Mapping[str, Any]) -> list[Any]:
    """The hidden inputs of a task: every edge, then random ones, the same for the same task."""
    plan, rng = data["plan"], random.Random(data["seed"])
    edges = [k + d for _, k in (*plan["tests"], *plan["steps"]) for d in (-1, 0, 1)]
    singles = [0, 1, -1, *edges, *(rng.randint(-99, 199) for _ in range(4))]
    if plan["form"] in ("steps", "pick"):
        return singles
    return [[], singles, edges[::-1], *([rng.randint(-99, 199) for _ in range(6)] for _ in "ab")]


def _module(plan: Mapping[str, Any], answer: str) -> str:
    body = textwrap.dedent(code_of(answer))
    if body.startswith("def f("):
        return body
    argument = "x" if plan["form"] in ("steps", "pick") else "xs"
    return f"def f({argument}):\n{textwrap.indent(body, '    ')}"


def _phrases(rng: random.Random, kind: str) -> Parts:
    form, _, size = kind.partition("-")
    steps, tests, signs = 0, 0, (">", "<")
    if kind in ("arith", "two-steps", "three-steps"):
        form, steps = "steps", {"arith": 1, "two-steps": 2, "three-steps": 3}[kind]
    elif form == "map":
        steps, tests = 1, {"": 0, "where": 1, "range": 2}[size]
    else:
        tests, signs = (2 if size == "range" else 1), (">=", "<=") if size == "edge" else signs
    chosen_steps = tuple(f"{rng.choice('+-*')} {rng.randrange(2)}" for _ in range(steps))
    chosen = signs if tests == 2 else (rng.choice(signs),) * tests
    return (
        form,
        rng.randrange(3),
        steps,
        *chosen_steps,
        *(f"{s} {rng.randrange(2)}" for s in chosen),
    )


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    form, lead, count = str(parts[0]), int(parts[1]), int(parts[2])
    step_parts, test_parts = parts[3 : 3 + count], parts[3 + count :]
    steps, said_steps = _numbered(rng, numbers(split, 2, 30), step_parts, STEPS)
    tests, said_tests = _numbered(rng, numbers(split, 31, 90), test_parts, TESTS)
    if len(tests) == 2:
        # "over 40 and under 20" would hold for nothing.
        tests[0][1], tests[1][1] = sorted((tests[0][1], tests[1][1]))
        said_tests = [_say(TESTS, p, k) for p, (_, k) in zip(test_parts, tests, strict=True)]
    plan = {"form": form, "steps": steps, "tests": tests, "names": []}
    test = " and ".join(said_tests)
    if form == "pick":
        plan["names"] = rng.sample(names(split), 2)
        text = LEADS[form][lead].format(a=plan["names"][0], b=plan["names"][1], t=test)
    elif form == "count":
        text = LEADS[form][lead].format(test)
    elif form == "map":
        text = LEADS[form][lead].format(f" {test}" if test else "", said_steps[0])
    else:
        text = LEADS[form][lead].format(", then ".join(said_steps))
    argument = "x" if form in ("steps", "pick") else "xs"
    data = {"plan": plan, "seed": rng.getrandbits(32)}
    return (user(f"def f({argument}):\n{text}"),), render(plan), data


def _say(wordings: Mapping[str, Sequence[str]], part: str | int, k: int) -> str:
    sign, i = str(part).split(" ")
    return wordings[sign][int(i)].format(k)


def _numbered(
    rng: random.Random,
    pool: Sequence[int],
    parts: Parts,
    wordings: Mapping[str, Sequence[str]],
) -> tuple[list[list[Any]], list[str]]:
    values = rng.sample(pool, len(parts))
    pairs = [[str(p).split(" ")[0], k] for p, k in zip(parts, values, strict=True)]
    return pairs, [_say(wordings, p, k) for p, k in zip(parts, values, strict=True)]


def _score(found: Result, right: list[Any]) -> Score:
    if found.outcome == "invalid":
        return Score(None, error=found.error)
    ran = float(found.outcome == "ok")
    # repr, because 1 == True == 1.0.
    good = ran and [repr(v) for v in found.outputs] == [repr(v) for v in right]
    return Score(float(bool(good)), {"ran": ran})
