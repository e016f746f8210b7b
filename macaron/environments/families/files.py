"""Small files (L2): two or three named functions, and one that calls them in a given order.

Every function is run by itself on hidden inputs, so that a file with the right end and a missing
or wrong middle does not pass.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from macaron.environments.answers import code_of
from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import names, numbers
from macaron.environments.splits import Content, Parts, draw, pick, user
from macaron.harness.sandbox import Job, Result, Sandbox, shared_sandbox

MIX = {"two": 1.0, "three": 1.0}
SAID = {
    "+": ("adds {}", "gives x plus {}"),
    "-": ("subtracts {}", "gives x minus {}"),
    "*": ("multiplies by {}", "gives x times {}"),
}
LEADS = (
    "Write a file of functions of x.",
    "I need a small file; each function takes x.",
    "Make a file with these functions of x.",
    "Put these functions of x into one file.",
)
LASTS = ("Then {} calls {}, in that order.", "At last {} is {}, one after the other.")


class SmallFiles:
    """Files of three or four functions."""

    name = "files"
    specialist = "L2"
    kinds: Sequence[str] = tuple(MIX)

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._sandbox = sandbox

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A file to write; the kind says how many functions the last one calls."""
        kind = pick(rng, MIX, kind)

        def phrases() -> Parts:
            # Adding and subtracting in turn give the same in any order; with a product they don't.
            signs = ["*", *rng.sample("+-", 1 if kind == "two" else 2)]
            rng.shuffle(signs)
            said = " ".join(f"{sign}/{rng.randrange(2)}" for sign in signs)
            return kind, rng.randrange(4), rng.randrange(2), said

        content = draw(split, self.name, phrases, lambda parts: _build(rng, split, parts))
        return Task(self.name, self.specialist, kind, split, *content)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 where every function is right on every input, else 0; None where the sandbox failed."""
        jobs, owners = list[Job](), list[tuple[int, str]]()
        for i, (task, answer) in enumerate(zip(tasks, answers, strict=True)):
            for name in (*(f[0] for f in task.data["functions"]), task.data["last"]):
                jobs.append(Job(code_of(answer), call=name, data=tuple(inputs(task.data))))
                owners.append((i, name))
        results = (self._sandbox or shared_sandbox()).run(jobs)
        found: list[dict[str, Result]] = [{} for _ in tasks]
        for (i, name), ran in zip(owners, results, strict=True):
            found[i][name] = ran
        attempts = zip(tasks, answers, found, strict=True)
        return [_score(t.data, code_of(a), ran) for t, a, ran in attempts]


def inputs(data: Mapping[str, Any]) -> list[int]:
    """The hidden inputs, the same for the same task."""
    rng = random.Random(data["seed"])
    return [0, 1, -1, *(rng.randint(-99, 199) for _ in range(5))]


def right(data: Mapping[str, Any], name: str, x: int) -> int:
    """What the function of that name returns."""
    for own, sign, k in data["functions"]:
        if name in (own, data["last"]):
            x = x + k if sign == "+" else x - k if sign == "-" else x * k
    return x


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    said = [part.split("/") for part in str(parts[3]).split(" ")]
    *own, last = (name.lower() for name in rng.sample(names(split), len(said) + 1))
    values = rng.sample(numbers(split, 2, 30), len(said))
    functions = [[n, sign, k] for n, (sign, _), k in zip(own, said, values, strict=True)]
    lines = [
        f"{n} {SAID[sign][int(way)].format(k)}."
        for n, (sign, way), k in zip(own, said, values, strict=True)
    ]
    text = "\n".join(
        [LEADS[int(parts[1])], *lines, LASTS[int(parts[2])].format(last, ", ".join(own))]
    )
    data = {"functions": functions, "last": last, "seed": rng.getrandbits(32)}
    return (user(text),), render(data), data


def render(data: Mapping[str, Any]) -> str:
    """The file, in one style."""
    call = "x"
    for name, _, _ in data["functions"]:
        call = f"{name}({call})"
    made = [f"def {n}(x):\n    return x {sign} {k}\n" for n, sign, k in data["functions"]]
    return "\n".join([*made, f"def {data['last']}(x):\n    return {call}"])


def _small(data: Mapping[str, Any], code: str) -> bool:
    """Whether the file has what was asked for and little more: all answers at once are not."""
    lines = [line for line in code.splitlines() if line.strip()]
    wanted = len(data["functions"]) + 1
    defined = sum(line.lstrip().startswith("def ") for line in lines)
    return defined == wanted and len(lines) <= 4 * wanted


def _score(data: Mapping[str, Any], code: str, ran: Mapping[str, Result]) -> Score:
    faults = [one.error for one in ran.values() if one.outcome == "invalid"]
    if faults:
        return Score(None, error=faults[0])
    good = {
        name: one.outcome == "ok"
        and [repr(v) for v in one.outputs] == [repr(right(data, name, x)) for x in inputs(data)]
        for name, one in ran.items()
    }
    small = _small(data, code)
    share = sum(good.values()) / len(good)
    return Score(float(small and share == 1.0), {"functions": share, "small": float(small)})
