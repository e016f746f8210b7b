"""Whose a failure is: each cause is made on purpose and found again, with its evidence."""

from dataclasses import replace
from typing import Any

import pytest

from macaron.hcp.document import load_hcp
from macaron.mindforge.expand.attempts import Attempt
from macaron.mindforge.expand.attribution import of_harness, of_tasks, of_widened
from tests.mindforge.expand.parts import changed, hook, runtime, tasks
from tests.project import HOUSE

CARD = tasks("genui", "two", 1)[0]


def attempt(task: str, reward: float) -> Attempt:
    return Attempt("widened", 0, "c", task, "L3", "genui/two", 1, reward, "answer", 5)


@pytest.mark.parametrize("name", ["chat", "agent", "coding", "genui"])
def test_nothing_is_wrong_with_the_shipped_tasks_and_harness(name: str) -> None:
    shipped = [t for kind in ("one-word", "count-one", "pick", "two") for t in _some(name, kind)]
    assert of_tasks(shipped) == {}
    assert of_harness(runtime(), shipped) == {}


def _some(name: str, kind: str) -> list[Any]:
    from macaron.environments import environment

    return tasks(name, kind, 2) if kind in environment(name).kinds else []


@pytest.mark.parametrize(
    ("fields", "how", "evidence"),
    [
        ({"L3__max_tokens": 8}, ("cut",), {"stop": "length", "max_tokens": 8}),
        ({"L3__stop": ["Card"]}, ("stopped",), {"stop_texts": ["Card"]}),
        ({"hooks": [hook()]}, ("mangled",), {"hooks": ["spoil"]}),
        ({"L3__max_tokens": 8, "L3__stop": ["Card"]}, ("cut", "stopped"), {}),
    ],
)
def test_a_harness_that_loses_the_reference_is_found(
    fields: dict[str, Any], how: tuple[str, ...], evidence: dict[str, Any]
) -> None:
    found = of_harness(runtime(changed(**fields)), [CARD])[CARD.id]
    assert (found.cause, found.how) == ("harness", how)
    assert evidence.items() <= found.evidence.items()
    assert found.evidence["needed_tokens"] > 8


def test_a_limit_that_is_just_enough_loses_nothing() -> None:
    needed = of_harness(runtime(changed(L3__max_tokens=1)), [CARD])[CARD.id].evidence
    exact = changed(L3__max_tokens=needed["needed_tokens"])
    assert of_harness(runtime(exact), [CARD]) == {}
    # One less leaves the end of turn out, and two the end of the answer.
    less = changed(L3__max_tokens=needed["needed_tokens"] - 2)
    assert of_harness(runtime(less), [CARD])[CARD.id].how == ("cut",)


def test_a_tool_that_is_not_exposed_is_found() -> None:
    orders = load_hcp(HOUSE / "contracts/hcp/orders.toml")
    [task] = tasks("orders", "late-4", 1)
    assert of_harness(runtime(orders), [task]) == {}
    found = of_harness(runtime(changed(orders, L1__tools=["find", "refund"])), [task])[task.id]
    assert (found.how, found.evidence["tools"]) == (("hidden-tool",), ["ship"])


def test_a_task_whose_verifier_breaks_or_refuses_its_reference_is_found() -> None:
    broken = replace(tasks("chat", "quote", 1)[0], data={})
    refused = replace(CARD, reference="<Card/>")
    found = of_tasks([broken, CARD, refused])
    assert set(found) == {broken.id, refused.id}
    assert found[broken.id].how == ("crash",)
    assert "KeyError" in found[broken.id].evidence["error"]
    assert (found[refused.id].cause, found[refused.id].how) == ("task", ("rejected",))


def test_what_passes_under_the_widened_harness_is_the_harness_else_the_model() -> None:
    other = replace(CARD, kind="one")
    attempts = [attempt(CARD.id, 0.0), attempt(CARD.id, 1.0), attempt(other.id, 0.5)]
    found = of_widened([CARD, other], attempts, {"L3": {"specialists.L3.temperature": 1.0}})
    assert (found[CARD.id].cause, found[other.id].cause) == ("harness", "model")
    assert found[CARD.id].evidence["passed"] == 1
    assert found[CARD.id].evidence["tries"] == 2
    assert found[other.id].evidence["widened"] == {"specialists.L3.temperature": 1.0}
