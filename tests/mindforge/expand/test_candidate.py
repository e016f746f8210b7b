"""What may be played, what waits for a person, and whose tasks a rewrite has to be played on."""

from typing import Any

import pytest

from macaron.mindforge.expand.candidate import Edit, candidate, unchanged
from macaron.mindforge.expand.slices import affected, slice_of
from tests.mindforge.expand.parts import SCOPE, SHIPPED, changed, hook

KEYS = tuple(SHIPPED.specialists)
SHOP = {"find": {"description": "", "parameters": {"type": "object"}, "source": "environment"}}


@pytest.mark.parametrize(
    ("path", "value", "state", "reason"),
    [
        ("specialists.L1.temperature", 0.7, "open", ""),
        ("specialists.L1.temperature", -1, "refused", "temperature"),
        ("specialists.L1.temperature", 0.0, "refused", "it changes nothing"),
        ("specialists.L1.max_rounds", 3, "refused", "outside the write scope"),
        ("specialists.L9.system", "x", "refused", "L9"),
        ("specialists.L1.tools", ["find"], "person", "tool exposure"),
        ("hooks", [hook()], "open", ""),
        ("hooks", [hook(safety=True)], "person", "safety"),
    ],
)
def test_only_what_is_valid_in_scope_and_not_sensitive_is_open(
    path: str, value: Any, state: str, reason: str
) -> None:
    base = changed(tools=SHOP)
    made = candidate(base, "L1", [Edit(path, value)], SCOPE, "test")
    assert made.state == state
    assert reason in " ".join(made.reasons)
    assert (made.hcp == base) == (state == "refused")


def test_of_two_edits_of_a_field_the_last_counts() -> None:
    edits = [Edit("specialists.L1.temperature", t) for t in (0.3, 0.9)]
    made = candidate(SHIPPED, "L1", edits, SCOPE, "test")
    assert made.hcp.specialists["L1"].temperature == 0.9
    assert len(made.edits) == 1


def test_a_change_affects_the_specialists_that_can_feel_it() -> None:
    assert affected(SHIPPED, changed(L2__stop=["x"]), KEYS) == ["L2"]
    assert affected(SHIPPED, changed(hooks=[hook(specialists=["L0", "L3"])]), KEYS) == ["L0", "L3"]
    assert affected(SHIPPED, changed(hooks=[hook()]), KEYS) == list(KEYS)
    memory = {**SHIPPED.memory.model_dump(), "summary_tokens": 7}
    assert affected(SHIPPED, changed(memory=memory), KEYS) == list(KEYS)
    # A tool in the list that nobody may call is nobody's.
    assert affected(SHIPPED, changed(tools=SHOP), KEYS) == []


def test_taking_a_hook_off_one_specialist_leaves_the_others_slices() -> None:
    everyone = changed(hooks=[hook()])
    without = changed(hooks=[hook(specialists=["L0", "L2", "L3"])])
    assert affected(everyone, without, KEYS) == ["L1"]
    assert slice_of(without, "L1") == slice_of(SHIPPED, "L1")


def test_a_candidate_is_known_by_its_slice() -> None:
    edit = Edit("specialists.L1.temperature", 0.7)
    one = candidate(SHIPPED, "L1", [edit], SCOPE, "one")
    other = candidate(SHIPPED, "L1", [edit, Edit("specialists.L0.stop", ["x"])], SCOPE, "other")
    assert one.id == other.id != unchanged(SHIPPED, "L1").id
