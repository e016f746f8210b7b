"""Wrong answers that must not pass: at least 200 a family, leak rate 0."""

import json
import random
import re

import pytest

from macaron.environments import environment, verify
from macaron.environments.agent import world
from macaron.environments.base import Task
from macaron.environments.chat import render as plain
from macaron.environments.coding import probes, result
from macaron.environments.entities import NAMES
from macaron.environments.routing import LABELS
from macaron.files import canonical_json
from models.nano.recipe.demonstrator import habit, mistake


def tasks_of(name: str, n: int) -> list[Task]:
    rng = random.Random(f"leaks {name}")
    made = environment(name)
    kinds = made.kinds
    return [
        made.sample(rng, "train" if i % 2 else "sealed", kinds[i % len(kinds)]) for i in range(n)
    ]


def common(task: Task, others: list[Task], rng: random.Random) -> list[str]:
    prompt = "\n".join(m["content"] for m in task.messages)
    another = rng.choice([t for t in others if t.reference != task.reference])
    half = task.reference[: len(task.reference) // 2]
    wrong = ["", " \n", prompt, task.messages[-1]["content"], another.reference, half]
    wrong += [f"{task.reference}\n{prompt}", f"{task.reference} " * 9]
    if task.environment == "routing":
        # The demonstrator knows the turns of the base's pretraining only.
        return wrong
    return [*wrong, *(mistake(task, rng) for _ in range(3))]


def of_chat(task: Task) -> list[str]:
    value, noun = task.data["value"], task.data["noun"]
    names = " ".join(NAMES)
    return [
        plain([], noun, value),
        f"{value} or {NAMES[0]}",
        names,
        re.sub(value, "", task.reference, flags=re.I),
    ]


FORGED = 'import os\nos.write(0, b\'{"outcome": "%s", "outputs": [], "error": ""}\')\nos._exit(0)'


def of_agent(task: Task) -> list[str]:
    _, right = world(canonical_json(task.data["plan"]), task.data["seed"])
    constants = [f"print({r!r})" for r in right]
    tricks = [
        "raise ValueError", "print()", "print(customers())", "exit()",
        "print(*range(99))", f"print({right[0]!r}, {right[1]!r}, {right[2]!r})",
        "class A(str):\n    __eq__ = lambda s, o: True\nprint(A('x'))",
        "print(len(customers()))", "print(len(orders()))",
    ]  # fmt: skip
    return constants + tricks


def of_coding(task: Task) -> list[str]:
    right = [result(task.data["plan"], value) for value in probes(task.data)]
    tricks = [
        "pass", "return None", "return True", "raise ValueError", "return", "return str(x)",
        "class A:\n    __eq__ = lambda s, o: True\nreturn A()",
        "class A(int):\n    __eq__ = lambda s, o: True\nreturn A(1)",
    ]  # fmt: skip
    return [f"return {value!r}" for value in right[:5]] + tricks


def of_genui(task: Task) -> list[str]:
    right = task.reference
    return [
        right + right, f"<Card>{right}</Card>", right.replace("<Card", "<Row", 1), f"{right} done",
        right.replace("/>", '/><Text label="Bada"/>', 1), right.replace('label="', 'label=" ', 1),
        right.replace(" label", ' label="Bada" label', 1), json.dumps(task.data["tree"]),
        "<Card/>", right.replace("</Card>", ""), right.replace("/>", ">", 1),
    ]  # fmt: skip


def of_routing(task: Task) -> list[str]:
    return [label for label in LABELS if label != task.reference] + [" ".join(LABELS), "L0"]


OWN = {
    "chat": of_chat, "agent": of_agent, "coding": of_coding, "genui": of_genui,
    "routing": of_routing,
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_no_wrong_answer_passes(name: str) -> None:
    rng = random.Random(name)
    tasks = tasks_of(name, 20)
    pairs = [(t, a) for t in tasks for a in common(t, tasks, rng) + OWN[name](t)]
    scores = verify([t for t, _ in pairs], [a for _, a in pairs])
    assert all(s.valid for s in scores)
    leaks = [(t.reference, a) for (t, a), s in zip(pairs, scores, strict=True) if s.reward != 0.0]
    assert len(pairs) >= 200
    assert len(leaks) / len(pairs) == 0.0, leaks


@pytest.mark.parametrize("name", ["chat", "agent", "coding", "genui"])
def test_no_habit_passes_on_any_kind(name: str) -> None:
    tasks = tasks_of(name, 60)
    assert {s.reward for s in verify(tasks, [habit(t) for t in tasks])} == {0.0}


@pytest.mark.parametrize("outcome", ["ok", "invalid", "nonsense"])
def test_a_forged_result_is_a_wrong_answer_and_not_an_invalid_one(outcome: str) -> None:
    tasks = [tasks_of("agent", 1)[0], tasks_of("coding", 1)[0]]
    scores = verify(tasks, [FORGED % outcome] * 2)
    assert [s.reward for s in scores] == [0.0, 0.0]


def test_no_number_off_by_one_passes() -> None:
    tasks, answers = [], []
    for task in tasks_of("agent", 40) + tasks_of("coding", 40):
        for found in re.finditer(r"\d+", task.reference):
            for step in (-1, 1):
                moved = str(int(found.group()) + step)
                tasks.append(task)
                answers.append(
                    task.reference[: found.start()] + moved + task.reference[found.end() :]
                )
    leaks = [a for a, s in zip(answers, verify(tasks, answers), strict=True) if s.reward != 0.0]
    assert len(answers) > 150
    assert leaks == []


def test_no_constant_is_right_on_two_databases() -> None:
    for task in tasks_of("agent", 40):
        worlds, right = world(canonical_json(task.data["plan"]), task.data["seed"])
        assert len(set(right)) == 3
        assert min(len(rows) for world in worlds for rows in world.values()) >= 4
