"""Parents by GEPA's front, children that are still edits, and where attempts go."""

import random
from collections import Counter

import pytest

from macaron.mindforge.expand.allocation import Beliefs, choose
from macaron.mindforge.expand.attempts import Attempt
from macaron.mindforge.expand.candidate import Candidate, Edit, candidate, unchanged
from macaron.mindforge.expand.population import crossed, front, mutated, parent
from macaron.mindforge.expand.reflection import proposed
from macaron.mindforge.expand.templates import ideas, widened
from tests.mindforge.expand.parts import SCOPE, SHIPPED, changed, hook, tasks


def attempt(name: str, task: str, passed: bool, kind: str = "agent/count-one") -> Attempt:
    return Attempt("search", 0, name, task, "L1", kind, 1, float(passed), "answer", 5)


def made(**fields: object) -> Candidate:
    edits = [Edit(f"specialists.L1.{name}", value) for name, value in fields.items()]
    return candidate(SHIPPED, "L1", edits, SCOPE, "test")


def test_the_front_keeps_who_is_best_somewhere() -> None:
    wide = [attempt("wide", task, True) for task in "abc"] + [attempt("wide", "d", False)]
    rare = [attempt("rare", "a", False), attempt("rare", "d", True), attempt("none", "d", False)]
    tie = [attempt("half", "a", True), attempt("half", "a", False)]
    assert front([*wide, *rare, *tie]) == {"wide": {"a", "b", "c"}, "rare": {"d"}}


def test_parents_are_drawn_by_what_they_lead_on() -> None:
    known = {name: made(temperature=t) for name, t in (("many", 0.5), ("one", 0.7), ("no", 0.9))}
    best = {"many": set("abc"), "one": {"d"}}
    rng = random.Random(0)
    drawn = Counter(parent(known, best, rng) for _ in range(400))
    assert set(drawn) == {"many", "one"}
    assert 240 < drawn["many"] < 360


def test_a_child_of_two_has_every_field_of_either() -> None:
    one, other = made(temperature=0.5, max_tokens=100), made(temperature=0.9, top_p=0.8)
    children = {crossed(one, other, random.Random(n)) for n in range(20)}
    assert {len(edits) for edits in children} == {3}
    assert {edits[0].value for edits in children} == {0.5, 0.9}


@pytest.mark.parametrize("seed", range(20))
def test_a_mutant_differs_and_is_valid(seed: int) -> None:
    one = made(temperature=0.1, top_p=0.95, max_tokens=4000)
    edits = mutated(one, random.Random(seed))
    assert edits != one.edits
    assert candidate(SHIPPED, "L1", edits, SCOPE, "mutation").state == "open"


def test_templates_answer_the_ways_of_failing() -> None:
    base = changed(L1__stop=["x"], hooks=[hook()])
    quiet = {edit.path for _, edits in ideas(base, "L1", []) for edit in edits}
    repairs = {
        "cut": "specialists.L1.max_tokens",
        "stopped": "specialists.L1.stop",
        "mangled": "hooks.0.specialists",
    }
    for how, path in repairs.items():
        origin, edits = next(i for i in ideas(base, "L1", [how]) if i[0] == "template:repair")
        assert [edit.path for edit in edits] == [path], origin
    assert "specialists.L1.tools" not in quiet
    tools = [i for i in ideas(base, "L1", [], ["ship"]) if i[0] == "template:tool"]
    assert tools[0][1][0].value == ["ship"]


def test_the_widened_harness_goes_as_far_as_the_contract_and_past_no_safety_hook() -> None:
    base = changed(hooks=[hook(name="guard", safety=True), hook()], L1__stop=["x"])
    wide = widened(base, "L1", SCOPE)
    config = wide.hcp.specialists["L1"]
    assert (wide.state, config.stop, config.temperature) == ("open", (), 1.0)
    assert wide.hcp.hooks[0] == base.hooks[0]
    assert wide.hcp.hooks[1].specialists == ("L0", "L2", "L3")
    narrow = widened(base, "L1", ["specialists.*.temperature"])
    assert {edit.path for edit in narrow.edits} == {"specialists.L1.temperature"}
    assert widened(base, "L1", ["memory.*"]).state == "refused"


def test_attempts_go_where_something_passes() -> None:
    good, bad = made(temperature=0.7), made(temperature=1.3)
    beliefs = Beliefs()
    beliefs.learn([attempt(good.id, str(n), True) for n in range(20)])
    beliefs.learn([attempt(bad.id, str(n), False) for n in range(20)])
    asked = tasks("agent", "count-one", 30)
    choices = choose(asked, {"L1": [good, bad]}, beliefs, set(), 10, random.Random(0))
    assert [choice.candidate.id for choice in choices] == [good.id] * 10
    assert len({choice.task.id for choice in choices}) == 10
    assert all(choice.expected > 0.8 for choice in choices)


def test_a_greedy_attempt_is_never_made_again() -> None:
    greedy, hot = unchanged(SHIPPED, "L1"), made(temperature=1.0)
    [task] = tasks("agent", "count-one", 1)
    tried = {(greedy.id, task.id), (hot.id, task.id)}
    rng = random.Random(0)
    assert choose([task], {"L1": [greedy]}, Beliefs(), tried, 5, rng) == []
    [choice] = choose([task], {"L1": [greedy, hot]}, Beliefs(), tried, 5, rng)
    assert choice.candidate is hot


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("temperature = 0.7\nmax_tokens = 99", {"temperature": 0.7, "max_tokens": 99}),
        ('```toml\nsystem = "Be brief."\n```', {"system": "Be brief."}),
        ("tools = ['shell']\nmax_rounds = 9", {}),
        ("I would raise the temperature.", {}),
        ("", {}),
    ],
)
def test_edits_of_a_model_are_read_as_toml_or_not_at_all(
    text: str, expected: dict[str, object]
) -> None:
    assert {e.path.rpartition(".")[2]: e.value for e in proposed(text, "L1")} == expected
