"""Hooks: each of the five moments, each action, and that every firing is recorded."""

from typing import Any

import pytest

from macaron.harness.hooks import Hooks
from macaron.harness.session import Session
from macaron.harness.turn import Request
from macaron.hcp.schema import HookConfig
from tests.harness.play import call, completion, environment, harness, play, user

FIND = call("find", '{"id": "x"}')


def hook(**fields: Any) -> dict[str, Any]:
    return {"name": "h", "pattern": "", "when": "before_turn", "action": "note", **fields}


def session(tokenizer: Any, *hooks: dict[str, Any], **changes: Any) -> Session:
    return Session(
        tokenizer, harness({"hooks": list(hooks)}, **changes), {"environment": environment()}
    )


def test_before_a_turn_a_users_text_is_rewritten_and_noted(chatml: Any) -> None:
    mask = hook(name="mask", pattern=r"\d{4}", action="replace", text="####")
    note = hook(name="note", pattern="card", text="Never repeat a card's number.")
    one = session(chatml, mask, note)
    turn, requests = play(one, chatml, [user("My card is 1234.")], ["Good."])
    text = chatml.decode(requests[0].prompt)
    assert "My card is ####.\n\nNever repeat a card's number.<|im_end|>" in text
    assert [f.hook for f in turn.firings] == ["mask", "note"]
    assert turn.firings[0].found == "1234" and turn.firings[0].when == "before_turn"
    one.deliver()
    assert one.history[0] == user("My card is ####."), "notes are the specialist's alone"


@pytest.mark.parametrize("text", ["Sorry, never.", ""])
def test_before_a_call_it_is_refused(chatml: Any, text: str) -> None:
    no = hook(when="before_tool", tools=["find"], pattern='"x"', action="refuse", text=text)
    turn, requests = play(session(chatml, no), chatml, [user("Find")], [FIND, "No."])
    assert f"Error: {text or 'refused (h)'}<|im_end|>" in chatml.decode(requests[1].prompt)
    assert turn.faults == {"refused": 1}
    assert [(f.tool, f.action) for f in turn.firings] == [("find", "refuse")]


def test_before_a_call_its_arguments_are_rewritten_and_checked_again(chatml: Any) -> None:
    def results(text: str) -> str:
        rewrite = hook(when="before_tool", pattern='"y"', action="replace", text=text)
        one = session(chatml, rewrite)
        turn, _ = play(one, chatml, [user("Find")], [call("find", '{"id": "y"}'), "So."])
        return turn.messages[2]["content"]

    assert results('"x"') == '{"id": "x", "open": true}'
    assert results("7").startswith("Error: find.id: 7 is not of type 'string'")
    assert results("{").startswith("Error: find: the arguments are not JSON")


def test_after_a_call_its_result_is_rewritten_noted_or_withheld(chatml: Any) -> None:
    def result(*hooks: dict[str, Any]) -> str:
        turn, _ = play(session(chatml, *hooks), chatml, [user("Find")], [FIND, "So."])
        return turn.messages[2]["content"]

    mend = hook(when="after_tool", pattern="true", action="replace", text="false")
    note = hook(name="n", when="after_tool", pattern="open", action="note", text="Close it.")
    keep = hook(when="after_tool", pattern="open", action="refuse", text="withheld")
    other = hook(when="after_tool", tools=["add"], pattern="", action="refuse")
    assert result(mend) == '{"id": "x", "open": false}'
    assert result(note) == '{"id": "x", "open": true}\n\nClose it.'
    assert result(keep) == "Error: withheld"
    assert result(other) == '{"id": "x", "open": true}'


def test_what_a_failed_call_says_passes_the_hooks_too(chatml: Any) -> None:
    mask = hook(when="after_tool", pattern="secret", action="replace", text="***")
    one = session(chatml, mask)
    turn, _ = play(one, chatml, [user("Find")], [call("find", '{"id": "secret"}'), "So."])
    assert turn.messages[2]["content"] == "Error: there is no ***"


def test_before_it_stops_a_specialist_is_sent_back_once(chatml: Any) -> None:
    more = hook(
        when="before_stop", pattern="unit", negate=True, action="continue", text="Give the unit."
    )
    turn, requests = play(session(chatml, more), chatml, [user("How far?")], ["5", "5 again"])
    assert (turn.answer, turn.rounds) == ("5 again", 2)
    assert chatml.decode(requests[1].prompt).endswith(
        "5<|im_end|>\n<|im_start|>user\nGive the unit.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [f.action for f in turn.firings] == ["continue"]
    turn, _ = play(session(chatml, more), chatml, [user("How far?")], ["5 units"])
    assert turn.firings == ()


def test_it_is_not_sent_back_when_its_rounds_are_used_up(chatml: Any) -> None:
    more = hook(when="before_stop", action="continue", text="More.")
    one = session(chatml, more, max_rounds=1)
    turn, _ = play(one, chatml, [user("How far?")], ["5"])
    assert (turn.stop_reason, turn.answer) == ("answer", "5")


def test_before_it_stops_an_answer_is_refused_or_rewritten(chatml: Any) -> None:
    no = hook(when="before_stop", pattern="5", action="refuse", text="I can't say.")
    turn, _ = play(session(chatml, no), chatml, [user("How far?")], ["5"])
    assert (turn.stop_reason, turn.answer) == ("refused", "I can't say.")
    mend = hook(when="before_stop", pattern=r"\d", action="replace", text="?")
    turn, _ = play(session(chatml, mend), chatml, [user("How far?")], ["5 or 6"])
    assert turn.answer == "? or ?" == turn.messages[-1]["content"]
    kept = [i for i, m in zip(turn.token_ids, turn.loss_mask, strict=True) if m]
    assert chatml.decode(kept) == "5 or 6<|im_end|>", "what was sampled stays as it was sampled"


def test_after_a_turn_an_answer_is_noted_or_refused_even_if_cut(chatml: Any) -> None:
    note = hook(when="after_turn", pattern="medicine", text="Ask a doctor.")
    turn, _ = play(session(chatml, note), chatml, [user("?")], ["Take medicine."])
    assert turn.answer == "Take medicine.\n\nAsk a doctor."
    no = hook(when="after_turn", pattern="secret", action="refuse", text="Withheld.")
    done = completion(chatml, "The secret is", stop="length")
    turn, _ = play(session(chatml, no), chatml, [user("?")], [done])
    assert (turn.stop_reason, turn.answer) == ("refused", "Withheld.")


def test_a_hook_is_of_the_specialists_that_it_names() -> None:
    config = HookConfig.model_validate(hook(specialists=["L2"], text="n"))
    assert Hooks([config], "L1").ask("before_turn", "x").notes == []
    assert Hooks([config], "L2").ask("before_turn", "x").notes == ["n"]


def test_hooks_are_asked_in_order_until_one_refuses() -> None:
    made = [
        hook(name="a", pattern="x", action="replace", text="y"),
        hook(name="b", pattern="y", action="refuse", text="no"),
        hook(name="c", text="never"),
    ]
    hooks = Hooks([HookConfig.model_validate(one) for one in made], "L1")
    ruling = hooks.ask("before_turn", "x")
    assert ruling.refusal == "no" and ruling.notes == []
    assert [f.hook for f in hooks.firings] == ["a", "b"]


def test_a_replacement_is_taken_literally() -> None:
    config = HookConfig.model_validate(hook(pattern="(a)", action="replace", text=r"\1\g<0>"))
    assert Hooks([config], "L1").ask("before_turn", "abc").text == r"\1\g<0>bc"


@pytest.mark.parametrize("negate", [False, True])
def test_a_pattern_that_takes_forever_fires(negate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("macaron.harness.patterns.SEARCH_S", 0.05)
    config = HookConfig.model_validate(
        hook(pattern="^(a|a|aa)+$", action="refuse", text="no", negate=negate)
    )
    hooks = Hooks([config], "L1")
    assert hooks.ask("before_turn", "a" * 64 + "!").refusal == "no"
    assert "too long" in hooks.firings[0].found


def test_hooks_on_an_undone_turn_leave_no_trace(chatml: Any) -> None:
    more = hook(when="before_stop", action="continue", text="More.")
    one = session(chatml, more)
    play(one, chatml, [user("?")], ["5", "6"])
    one.undo()
    state = one.begin([user("?")], "L1")
    assert isinstance(state, Request)
    assert isinstance(one.advance(completion(chatml, "5")), Request), "once a turn, not a session"
