"""What validated experience does to the next training."""

import json
import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from macaron.experience.outcome import Outcome
from macaron.experience.schema import SCHEMA, Feedback, Trajectory
from macaron.experience.selection import Selection, select
from macaron.experience.steering import FLOOR
from macaron.experience.table import to_table
from tests.experience.rows import HCP, chat, rollout, turn

TASK = json.dumps({"environment": "agent", "kind": "two-filters", "split": "train", "n": 4})


@dataclass(frozen=True)
class Verdict:
    reward: float | None


def count_verifier(tasks: Any, answers: Any) -> list[Verdict]:
    """The task's `n` is the right answer; an answer "crash" breaks the verifier."""
    return [
        Verdict(None if answer == "crash" else float(answer == str(task["n"])))
        for task, answer in zip(tasks, answers, strict=True)
    ]


def chosen(*rows: Trajectory, verify: Any = None, hcp: str | None = None) -> Selection:
    return select(to_table(rows), verify, hcp=hcp)


def test_a_correction_replaces_the_answer() -> None:
    (example,) = chosen(turn(feedback=Feedback(rating=-1, correction="four"))).examples
    assert (example.origin, example.weight, example.specialist) == ("correction", 1.0, "L1")
    assert example.messages == chat()[:1] and example.answer == "four"
    assert (example.prompt_ids, example.response_ids) == ((), ())
    assert example.to_json() == {
        "messages": [{"role": "user", "content": "How many?"}],
        "answer": "four",
        "weight": 1.0,
        "origin": "correction",
        "trajectory": "t1",
        "hcp": HCP,
    }


def test_sampled_tokens_are_learned_as_they_were_sampled() -> None:
    (example,) = chosen(rollout()).examples
    assert (example.origin, example.weight) == ("verified", 0.5)
    assert (example.prompt_ids, example.response_ids) == ((5, 6), (7, 8))
    assert example.to_json() == {
        "prompt_ids": [5, 6],
        "response_ids": [7, 8],
        "weight": 0.5,
        "origin": "verified",
        "trajectory": "r1",
        "hcp": HCP,
    }


def test_of_several_turns_the_last_answer_s_tokens_are_the_response() -> None:
    row = rollout(
        token_ids=(1, 2, 3, 4, 5, 6, 7),
        loss_mask=(False, True, True, False, True, True, False),
        logprobs=(0.0, -1.0, -1.0, 0.0, -1.0, -1.0, 0.0),
    )
    (example,) = chosen(row).examples
    assert (example.prompt_ids, example.response_ids) == ((1, 2, 3, 4), (5, 6))


def test_tokens_made_under_another_harness_are_not_used() -> None:
    row = turn(feedback=Feedback(rating=1), hcp="f" * 64)
    assert chosen(row).examples[0].response_ids == (7, 8)
    (example,) = chosen(row, hcp=HCP).examples
    assert example.response_ids == () and example.answer == "three"
    assert chosen(replace(row, hcp=HCP), hcp=HCP).examples[0].response_ids == (7, 8)


@pytest.mark.parametrize("said", [Feedback(rating=1), Feedback(outcome="success")])
def test_praise_counts_half(said) -> None:
    (example,) = chosen(turn(feedback=said)).examples
    assert (example.origin, example.weight) == ("praised", 0.5)


@pytest.mark.parametrize(
    "row",
    [
        turn(),
        turn(feedback=Feedback(rating=0)),
        turn(feedback=Feedback(rating=-1)),
        turn(feedback=Feedback(outcome="failure")),
        rollout(reward=0.0),
        rollout(reward=0.99),
        # pains: a reward of None is neither a failure nor a success.
        rollout(reward=None, reward_valid=False),
        rollout(reward_valid=False),
    ],
)
def test_other_turns_teach_nothing_by_imitation(row) -> None:
    assert chosen(row).examples == ()


@pytest.mark.parametrize(
    "row",
    [
        turn(feedback=Feedback(rating=1, outcome="failure")),
        rollout(feedback=Feedback(rating=-1)),
        rollout(reward=0.0, feedback=Feedback(rating=1)),
    ],
)
def test_signals_that_disagree_teach_nothing(row) -> None:
    selection = chosen(row)
    assert selection.examples == () and selection.report["dropped"] == {"signals disagree": 1}


def test_the_verifier_has_the_last_word_on_users() -> None:
    rows = [
        turn("right", task=TASK, feedback=Feedback(correction="4")),
        turn("wrong", task=TASK, feedback=Feedback(correction="5")),
        turn("broken", task=TASK, feedback=Feedback(correction="crash")),
        turn("free", messages=chat("Why?"), feedback=Feedback(correction="5")),
        turn("liked", task=TASK, feedback=Feedback(rating=1)),
    ]
    selection = chosen(*rows, verify=count_verifier)
    assert [e.trajectory for e in selection.examples] == ["free", "right"]
    assert selection.report["dropped"] == {
        "correction: rejected by the verifier": 1,
        "correction: the verifier failed": 1,
        "praised: rejected by the verifier": 1,
    }
    assert len(chosen(*rows).examples) == 5


def test_the_verifier_is_asked_once_and_not_about_what_it_said() -> None:
    calls = []

    def verify(tasks: Any, answers: Any) -> list[Verdict]:
        calls.append(list(answers))
        return count_verifier(tasks, answers)

    said = Feedback(correction="4")
    rows = [rollout(task=TASK), turn("a", task=TASK, feedback=said), turn("b", feedback=said)]
    chosen(*rows, verify=verify)
    assert calls == [["4"]]
    chosen(rollout(task=TASK), verify=verify)
    assert len(calls) == 1


def test_a_sealed_task_is_never_learned() -> None:
    sealed = json.dumps({"split": "sealed"})
    selection = chosen(
        rollout(task=sealed), turn("b", task=sealed, feedback=Feedback(correction="4"))
    )
    assert selection.examples == () and selection.report["dropped"] == {"sealed task": 2}


def test_a_tool_call_is_learned_from_its_tokens_only() -> None:
    function = {"name": "f", "arguments": "{}"}
    call = {"id": "c", "type": "function", "function": function}
    messages = (*chat()[:1], {"role": "assistant", "content": "I call", "tool_calls": [call]})
    row = turn(messages=messages, feedback=Feedback(rating=1))
    assert chosen(row).examples[0].response_ids == (7, 8)
    blind = chosen(replace(row, token_ids=(), loss_mask=(), logprobs=()))
    assert blind.examples == ()
    assert blind.report["dropped"] == {"no text and no tokens to learn from": 1}


def test_equal_answers_are_learned_once_with_the_greater_weight() -> None:
    rows = [
        turn("b", feedback=Feedback(rating=1), token_ids=(), loss_mask=(), logprobs=()),
        turn("c", feedback=Feedback(rating=1)),
        turn("d", messages=chat(answer="nine"), feedback=Feedback(correction="three")),
        turn("e", feedback=Feedback(rating=1), specialist="L2"),
    ]
    selection = chosen(*rows)
    assert [e.trajectory for e in selection.examples] == ["d", "e"]
    assert selection.report["dropped"] == {"same prompt and answer": 2}
    assert [e.trajectory for e in chosen(*rows[:2]).examples] == ["c"]


NIGHT = [
    *(rollout(f"a{i}", kind="easy", messages=chat(f"{i}?")) for i in range(8)),
    *(rollout(f"b{i}", kind="hard", reward=0.0, messages=chat(f"{i}?")) for i in range(8)),
    rollout("c", kind="unscored", reward=None, reward_valid=False),
    turn("d", environment="agent", kind="hard", feedback=Feedback(correction="four")),
    turn("e", environment="agent", kind="easy", feedback=Feedback(rating=1)),
    turn("f", environment="coding", kind="sum", feedback=Feedback(rating=-1), specialist="L2"),
    turn("g", feedback=Feedback(outcome="failure")),
    turn("h", environment="agent", kind="silent"),
]


def test_failures_steer_what_is_drawn() -> None:
    weights = chosen(*NIGHT).kind_weights
    assert set(weights) == {"agent", "coding"}
    assert set(weights["agent"]) == {"easy", "hard"}
    easy, hard = FLOOR + 1 / 11, FLOOR + 10 / 11
    assert weights["agent"]["hard"] == pytest.approx(2 * hard / (easy + hard))
    assert weights["agent"]["easy"] + weights["agent"]["hard"] == pytest.approx(2)
    assert weights["coding"] == {"sum": 1.0}


def test_more_failures_weigh_more() -> None:
    more = replace(NIGHT[0], id="x", reward=0.0)
    before, after = chosen(*NIGHT).kind_weights, chosen(*NIGHT, more).kind_weights
    assert after["agent"]["easy"] > before["agent"]["easy"]


def test_the_report_says_how_much_came_from_where() -> None:
    report = chosen(*NIGHT).report
    assert json.loads(json.dumps(report)) == report
    assert (report["rows"], report["examples"]) == (len(NIGHT), 10)
    assert report["by_origin"] == {"correction": 1, "praised": 1, "verified": 8}
    assert report["by_specialist"] == {"L1": {"correction": 1, "praised": 1, "verified": 8}}
    assert report["kinds"]["agent"]["hard"] == {"rows": 9, "failures": 9, "rate": 10 / 11}
    assert report["dropped"] == {}


def test_the_order_of_rows_changes_nothing() -> None:
    shuffled = random.Random(1).sample(NIGHT, len(NIGHT))
    assert chosen(*shuffled) == chosen(*NIGHT)


def test_other_experience_selects_other_examples() -> None:
    other = [*NIGHT[:-1], turn("i", messages=chat("New?"), feedback=Feedback(correction="five"))]
    assert chosen(*other).examples != chosen(*NIGHT).examples


def test_the_time_of_feedback_changes_nothing() -> None:
    later = [
        replace(row, feedback=replace(row.feedback, at="2026-11-30T00:00:00+00:00"))
        if row.feedback.given
        else row
        for row in NIGHT
    ]
    assert chosen(*later) == chosen(*NIGHT)


def test_no_rows_select_nothing() -> None:
    selection = select(SCHEMA.empty_table(), count_verifier)
    assert selection.examples == () and selection.kind_weights == {}


def test_a_reward_that_is_not_valid_is_no_signal() -> None:
    assert not Outcome.of(rollout(reward=None, reward_valid=False)).told
    assert not Outcome.of(rollout(reward=0.0, reward_valid=False)).failed
