"""Repair (L2): a body with one fault in it, to be mended by what the function should do.

What is right is held against the hidden probes of `coding`, and a task exists only if the faulty
body fails on one of them.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from macaron.environments.base import Score, Split, Task
from macaron.environments.coding import Coding, probes, render, result
from macaron.environments.splits import Content, Parts, draw, pick, user
from macaron.harness.sandbox import Sandbox

MIX = {"wrong-sign": 1.0, "wrong-number": 1.0, "left-out": 1.0}
LEADS = (
    "This is wrong:",
    "There is a fault in this:",
    "This does not do it:",
    "Here is a try that fails:",
)
ENDS = ("Mend it.", "Write it right.", "Correct the body.")
TURNED = {"+": "-", "-": "+", "*": "+", ">": "<", "<": ">", ">=": ">", "<=": "<"}


class Repair:
    """Faulty bodies of one to three lines."""

    name = "repair"
    specialist = "L2"
    kinds: Sequence[str] = tuple(MIX)

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._coding = Coding(sandbox)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A fault to mend; the kind says what it is."""
        kind = pick(rng, MIX, kind)

        def phrases() -> Parts:
            form = rng.choice(("two-steps", "three-steps", "map-where", "pick-range"))
            return kind, form, rng.randrange(4), rng.randrange(3)

        content = draw(split, self.name, phrases, lambda p: self._build(rng, split, p))
        return Task(self.name, self.specialist, kind, split, *content)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 where every probe's result is right, else 0; None where the sandbox failed."""
        return self._coding.verify(tasks, answers)

    def _build(self, rng: random.Random, split: Split, parts: Parts) -> Content:
        kind, form, lead, end = str(parts[0]), str(parts[1]), int(parts[2]), int(parts[3])
        while True:
            # A function of the same split, so that its phrases are of the split too.
            task = self._coding.sample(rng, split, form)
            faults = [plan for plan in faulty(task.data["plan"], kind) if _fails(task, plan)]
            if faults:
                break
        plan = rng.choice(faults)
        text = f"{task.messages[0]['content']}\n{LEADS[lead]}\n{render(plan)}\n{ENDS[end]}"
        return (user(text),), task.reference, {**task.data, "faulty": plan}


def faulty(plan: Mapping[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    """Plans with one fault of the kind."""
    for part in ("steps", "tests"):
        found = plan[part]
        for i, (sign, k) in enumerate(found):
            other = {
                "wrong-sign": [[TURNED[sign], k]],
                "wrong-number": [[sign, k + 1]],
                "left-out": [],
            }[kind]
            yield {**plan, part: [*found[:i], *other, *found[i + 1 :]]}


def _fails(task: Task, plan: Mapping[str, Any]) -> bool:
    return any(result(plan, v) != result(task.data["plan"], v) for v in probes(task.data))
