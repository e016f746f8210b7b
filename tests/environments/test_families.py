"""The further families: references pass, wrong answers and wrong deeds do not, splits are apart."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from macaron.contract.document import load_contract
from macaron.environments import environment, environments, families, verify
from macaron.environments.bank import sealed
from macaron.environments.base import Split, Task
from macaron.environments.coding import render
from macaron.environments.entities import NAMES, is_name
from macaron.environments.families.calendar import weeks
from macaron.environments.families.files import render as render_file
from macaron.environments.families.repair import faulty
from macaron.environments.families.stock import check_of
from macaron.environments.splits import entity_split, text_split
from macaron.environments.watch import watch
from macaron.harness.allowlist import tool_box
from macaron.harness.tools import ToolBox
from macaron.hcp.document import load_hcp

ROOT = Path(__file__).parents[2]
READ = ("recall", "honesty", "repair", "files", "forms", "tables")
WORLDS = ("calendar", "stock")
CODE = ("repair", "files")
EVERY = (*READ, *WORLDS)
SLOW: dict[str, Any] = {name: pytest.param(name, marks=pytest.mark.full) for name in CODE}


def tasks(name: str, split: Split, n: int) -> list[Task]:
    made, rng = environment(name), random.Random(f"{name} {split}")
    return [made.sample(rng, split, made.kinds[i % len(made.kinds)]) for i in range(n)]


def test_each_specialist_has_three_and_the_bank_none_of_the_further_ones() -> None:
    assert set(families()) == set(EVERY)
    assert not set(families()) & set(environments())
    named = [made.specialist for made in (*families().values(), *environments().values())]
    assert all(named.count(key) >= 3 for key in ("L0", "L1", "L2", "L3"))


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same_tasks_and_they_survive_json(name: str) -> None:
    found = tasks(name, "train", 20)
    assert found == tasks(name, "train", 20)
    assert len({task.id for task in found}) > 15
    assert [Task.from_json(task.to_json()).id for task in found] == [task.id for task in found]


@pytest.mark.parametrize("name", EVERY)
def test_the_splits_share_no_prompt_and_no_entity(name: str) -> None:
    train, held = tasks(name, "train", 200), sealed(name, 200, seed=3)
    assert {str(t.messages) for t in train}.isdisjoint({str(t.messages) for t in held})
    for split, group in (("train", train), ("sealed", held)):
        assert {text_split(t.messages) for t in group} == {split}
        said = " ".join(m["content"] for t in group for m in t.messages)
        # A function's name has no capital.
        written = r"[A-Za-z]+" if name == "files" else r"[A-Z][a-z]+"
        met = {word.capitalize() for word in re.findall(written, said) if is_name(word)}
        assert {entity_split(word) for word in met} == {split}


@pytest.mark.parametrize("name", READ)
def test_every_reference_is_accepted(name: str) -> None:
    n = 12 if name in CODE else 60
    found = [*tasks(name, "train", n), *tasks(name, "sealed", n)]
    assert {s.reward for s in verify(found, [t.reference for t in found])} == {1.0}


def of_recall(task: Task) -> list[str]:
    wrong = list(task.data["wrong"])
    right = task.reference
    return [*wrong, f"{right} {wrong[0]}", f"{wrong[0]}, {right}", f"not {right}", right.lower()]


def of_honesty(task: Task) -> list[str]:
    first, second = task.data["right"]
    wrong = task.data["wrong"][0]
    return [
        "unknown", "unknown, unknown", f"{second}, {first}", first, second, f"{first}, {wrong}",
        f"{wrong}, {second}", f"{first} {second}", f"{first}, {second}, {wrong}",
    ]  # fmt: skip


def of_repair(task: Task) -> list[str]:
    plans = [p for kind in ("wrong-sign", "wrong-number") for p in faulty(task.data["plan"], kind)]
    return [render(task.data["faulty"]), "pass", "return x", *(render(p) for p in plans)]


def of_files(task: Task) -> list[str]:
    data, right = task.data, task.reference
    own = data["functions"]
    moved = [[*own[:i], [n, s, k + 1], *own[i + 1 :]] for i, (n, s, k) in enumerate(own)]
    others = [render_file({**data, "functions": found}) for found in moved]
    turned = render_file({**data, "functions": own[::-1]}).rsplit("def ", 1)[1]
    return [
        *others, right.rsplit("def ", 1)[0], right.split("def ", 2)[2],
        right.rsplit("def ", 1)[0] + "def " + turned, right + "\n\n" + right,
        right.replace("return", "print"), f"{right}\n    return 0",
    ][:-1]  # fmt: skip


def of_forms(task: Task) -> list[str]:
    right = task.reference
    found = list(re.finditer(r"\{(\d+)\}", right))
    numbers = [
        right[: m.start(1)] + str(int(m.group(1)) + d) + right[m.end(1) :]
        for m in found
        for d in (-1, 1)
    ]
    return [
        *numbers, right + right, right.replace("<Form", "<Card", 1), f"{right} done", "<Form/>",
        right.replace("/>", '/><Field label="Bada"/>', 1), right.replace("</Form>", ""),
        re.sub(r" (min|low|required)=\{\d+\}", "", right, count=1),
    ]  # fmt: skip


def of_tables(task: Task) -> list[str]:
    right, rows = task.reference, task.data["rows"]
    lines = re.findall(r"<Line [^>]*/>", right)
    title = right.split(">")[0] + ">"
    every = "".join(f'<Line label="{a}" value={{{b}}}/>' for a, b in rows)
    changed = [lines[::-1], lines[1:], [*lines, lines[0]], lines[:-1]]
    tables = [f"{title}{''.join(one)}</Table>" for one in changed if one != lines]
    kept = [f"{title}{every}</Table>"] if task.kind != "plain" else []
    return [*tables, *kept, right.replace("value", "number"), right.replace("Line", "Row")]


WRONG: dict[str, Callable[[Task], list[str]]] = {
    "recall": of_recall, "honesty": of_honesty, "repair": of_repair, "files": of_files,
    "forms": of_forms, "tables": of_tables,
}  # fmt: skip


@pytest.mark.parametrize("name", [SLOW.get(name, name) for name in READ])
def test_no_wrong_answer_passes(name: str) -> None:
    found = tasks(name, "sealed", 20)
    pairs = [(t, a) for t in found for a in WRONG[name](t) if a.strip() != t.reference]
    for task in found:
        prompt = "\n".join(m["content"] for m in task.messages)
        other = next(t.reference for t in found if t.reference != task.reference)
        cut = task.reference[: len(task.reference) // 2]
        pairs += [(task, a) for a in ("", prompt, other, cut, " ".join(NAMES[:40]))]
    scores = verify([t for t, _ in pairs], [a for _, a in pairs])
    leaks = [(t.reference, a) for (t, a), s in zip(pairs, scores, strict=True) if s.reward != 0.0]
    assert len(pairs) >= 200
    assert leaks == []


@pytest.mark.parametrize("name", [SLOW.get(name, name) for name in EVERY])
def test_no_cheap_attack_pays(name: str) -> None:
    assert {found.reward for found in watch(environment(name))} == {0.0}


def test_saying_unknown_alone_passes_on_no_task() -> None:
    found = tasks("honesty", "train", 90)
    assert {s.reward for s in verify(found, ["unknown, unknown"] * 90)} == {0.0}
    untold = [t.data["right"].index("unknown") if "unknown" in t.data["right"] else None
              for t in found]  # fmt: skip
    assert {untold.count(place) for place in (0, 1, None)} == {30}


def test_what_was_corrected_is_no_longer_right() -> None:
    for task in [t for t in tasks("recall", "train", 60) if t.kind == "corrected"]:
        assert task.reference in task.messages[-3]["content"]
        assert task.reference not in "".join(m["content"] for m in task.messages[:-3])


def test_a_repair_starts_from_a_body_that_fails_and_differs_by_one_fault() -> None:
    found = tasks("repair", "train", 15)
    scores = verify(found, [render(t.data["faulty"]) for t in found])
    assert {s.reward for s in scores} == {0.0}
    for task in found:
        assert render(task.data["faulty"]) in task.messages[0]["content"]
        assert task.data["faulty"] in list(faulty(task.data["plan"], task.kind))


def box_of(task: Task) -> tuple[Any, ToolBox]:
    """A world, behind the shipped harness document's own tools."""
    world = environment(task.environment).world(task)  # type: ignore[attr-defined]
    hcp = load_hcp(ROOT / f"contracts/hcp/{task.environment}.toml")
    return world, tool_box(hcp, "L1", {"environment": world.tools()})


def arrange(task: Task, box: ToolBox, late: int = 0, free_old: bool = True) -> str:
    """Looks, books, and frees the old hour, as a careful agent does."""
    data = task.data
    taken = box.run("look", {"day": data["day"]})
    free = [h for h in range(data["hour"], 18) if str(h) not in taken]
    box.run("book", {"day": data["day"], "hour": free[late], "who": data["who"]})
    if data["old"] and free_old:
        week = box.run("look", {"day": data["old"]})
        old = next(int(h) for h, who in week.items() if who == data["who"])
        box.run("cancel", {"day": data["old"], "hour": old})
    return str(free[0])


def test_a_careful_agent_keeps_the_calendar_and_others_do_not() -> None:
    for task in [*tasks("calendar", "train", 40), *tasks("calendar", "sealed", 40)]:
        world, box = box_of(task)
        assert arrange(task, box) == task.reference
        assert world.score(task.reference).reward == 1.0
        assert world.score("").reward == world.score("8 9 10 11 12 13 14 15 16 17").reward == 0.0
        box.run("cancel", {"day": task.data["day"], "hour": int(task.reference)})
        assert world.score(task.reference).reward == 0.0
        if task.kind == "move":
            world, box = box_of(task)
            arrange(task, box, free_old=False)
            assert world.score(task.reference).reward == 0.0


def test_the_second_free_hour_is_wrong() -> None:
    tried = 0
    for task in tasks("calendar", "train", 60):
        data, (week, _, _) = task.data, weeks(task)
        if sum(h not in week[data["day"]] for h in range(data["hour"], 18)) > 1:
            world, box = box_of(task)
            arrange(task, box, late=1)
            assert world.score(task.reference).reward == 0.0
            tried += 1
    assert tried > 10


def test_no_constant_hour_is_right_and_none_can_be_booked_unseen() -> None:
    found = tasks("calendar", "train", 60)
    assert all(int(task.reference) > task.data["hour"] for task in found)
    assert len({int(task.reference) - task.data["hour"] for task in found}) > 2


def read_true(task: Task, box: ToolBox, patient: bool, checks: bool) -> str:
    """Reads until there is a reading that it trusts, and files it."""
    for _ in range(12):
        text = box.call("read", f'{{"item": "{task.data["item"]}"}}')
        if text.startswith("Error"):
            if patient:
                continue
            return ""
        amount, check = (int(n) for n in re.findall(r"\d+", text))
        if not checks or check_of(amount) == check:
            box.run("file", {"item": task.data["item"], "amount": amount})
            return str(amount)
    return ""


@pytest.mark.parametrize(
    ("patient", "checks", "solved"),
    [
        (True, True, {"fails", "lies", "both"}),
        (True, False, {"fails"}),
        (False, True, {"lies"}),
        (False, False, set()),
    ],
)
def test_stock_needs_patience_where_tools_fail_and_doubt_where_they_lie(
    patient: bool, checks: bool, solved: set[str]
) -> None:
    for task in tasks("stock", "sealed", 60):
        world, box = box_of(task)
        answer = read_true(task, box, patient, checks)
        assert world.score(answer).reward == float(task.kind in solved)
        if answer:
            box.run("file", {"item": task.data["item"], "amount": 1})
            assert world.score(answer).reward == 0.0


@pytest.mark.parametrize("name", WORLDS)
def test_answers_without_deeds_are_worth_nothing(name: str) -> None:
    found = tasks(name, "sealed", 40)
    pairs = [(t, a) for t in found for a in (t.reference, "", "0", "yes", "done")]
    assert len(pairs) >= 200
    assert {s.reward for s in verify([t for t, _ in pairs], [a for _, a in pairs])} == {0.0}


def test_contract_v2_adds_the_families_that_need_no_tools_as_guards() -> None:
    old, new = (load_contract(ROOT / f"contracts/{name}.toml") for name in ("v1", "v2"))
    assert set(old.suites) <= set(new.suites)
    added = [suite for suite in new.suites if suite not in old.suites]
    assert {suite.environment for suite in added} == set(READ)
    assert {suite.role for suite in added} == {"guard"}
    for suite in added:
        assert suite.specialist == environment(suite.environment).specialist
        assert len(sealed(suite.environment, suite.items, seed=1)) == suite.items
