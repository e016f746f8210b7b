"""A session: how turns end, and what of them stays."""

from typing import Any, get_args

import pytest

from macaron.engines.base import Completion
from macaron.engines.randomness import derive
from macaron.errors import ConfigError
from macaron.harness.session import Session
from macaron.harness.stops import FAILED, STOPS, Stop
from macaron.harness.tools import Tool
from macaron.harness.turn import Request, Turn
from macaron.harness.view import BARE, REFUSED, Setting
from tests.harness.play import ADD as PARAMETERS
from tests.harness.play import call, completion, environment, harness, play, user

ADD = call("add", '{"a": 2, "b": 3}')
WRONG = "<tool_call>{</tool_call>"


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def session(tokenizer: Any, document: dict[str, Any] | None = None, **changes: Any) -> Session:
    options = {k: changes.pop(k) for k in ("seed", "window", "clock") if k in changes}
    return Session(
        tokenizer, harness(document, **changes), {"environment": environment()}, **options
    )


def test_a_turn_with_calls_and_an_answer(chatml: Any) -> None:
    one = session(chatml)
    turn, requests = play(one, chatml, [user("Add")], [f"I add. {ADD}", "It is 5."])
    assert (turn.stop_reason, turn.answer, turn.rounds, turn.calls) == ("answer", "It is 5.", 2, 1)
    roles = [m["role"] for m in turn.messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
    (made,) = turn.messages[1]["tool_calls"]
    assert made["function"] == {"name": "add", "arguments": '{"a": 2, "b": 3}'}
    assert turn.messages[1]["content"] == "I add."
    assert turn.messages[2]["tool_call_id"] == made["id"] and turn.messages[2]["content"] == "5"
    assert not turn.failed and not turn.faults and not turn.error
    assert chatml.decode(requests[1].prompt).endswith(
        "<|im_start|>tool\n5<|im_end|>\n<|im_start|>assistant\n"
    )


def test_what_is_sampled_depends_on_the_place(chatml: Any) -> None:
    one = session(chatml, seed=7)
    _, requests = play(one, chatml, [user("Add")], [ADD, "5"])
    one.deliver()
    _, later = play(one, chatml, [user("Again")], ["5"])
    seeds = [r.params.seed for r in [*requests, *later]]
    assert seeds == [derive(7, 0, 0), derive(7, 0, 1), derive(7, 1, 0)]


def test_the_specialists_parameters_are_asked_for(chatml: Any) -> None:
    one = session(chatml, max_tokens=9, temperature=0.5, top_p=0.9, stop=["!"])
    state = one.begin([user("Hi")], "L1")
    assert isinstance(state, Request)
    params = state.params
    assert (params.max_tokens, params.temperature, params.top_p) == (9, 0.5, 0.9)
    assert params.stop_ids == (chatml.eos_token_id, chatml.encode("!")[0])
    warm = Session(chatml, harness(tools=[]), temperature=2.0).begin([user("Hi")], "L1")
    assert isinstance(warm, Request) and warm.params.temperature == 2.0


@pytest.mark.parametrize("after", [" and so on", ""])
def test_a_stop_text_ends_a_response_where_it_stands(chatml: Any, after: str) -> None:
    one = session(chatml, stop=["STOP"])
    done = completion(chatml, f"It is 5. STOP{after}", stop="length")
    turn, _ = play(one, chatml, [user("Add")], [done])
    assert (turn.stop_reason, turn.answer) == ("answer", "It is 5. ")
    mine = [i for i, mask in zip(turn.token_ids, turn.loss_mask, strict=True) if mask]
    assert mine == done.token_ids[: len(mine)]
    assert chatml.decode(mine) == "It is 5. STOP"


def ended(stop: Stop, tokenizer: Any) -> Turn:
    """A turn that ends like that."""
    clock = Clock()
    one = session(tokenizer, DOCUMENTS.get(stop), clock=clock, max_rounds=2)
    if stop == "turns":
        play(one, tokenizer, [user("Add")], ["5"])
        one.deliver()
    state = one.begin([user("Add")], "L1", setting=SETTINGS.get(stop, BARE))
    for response in RESPONSES[stop]:
        assert isinstance(state, Request)
        clock.now += 3.0
        state = one.advance(completion(tokenizer, response, stop=CUT.get(stop, "stop")))
    assert isinstance(state, Turn)
    return state


DOCUMENTS: dict[str, dict[str, Any]] = {
    "turns": {"session": {"max_turns": 1}},
    "time": {"session": {"turn_s": 5.0}},
    "context": {"session": {"context_tokens": 360}},
    "refused": {
        "hooks": [{"name": "no", "when": "before_turn", "pattern": "A", "action": "refuse"}]
    },
}
SETTINGS = {"calls": Setting(tools=(Tool("pay", "", PARAMETERS, print),))}
CUT: dict[str, Any] = {"length": "length"}
RESPONSES: dict[str, list[str]] = {
    "answer": ["5"],
    "length": ["It is"],
    "rounds": [WRONG, ADD],
    "malformed": [ADD, WRONG],
    "context": [ADD],
    "refused": [],
    "turns": [],
    "time": [ADD, "5"],
    "tool": [call("find", '{"id": "broken"}')],
    "calls": [call("pay", '{"a": 1, "b": 2}')],
}


@pytest.mark.parametrize("stop", [s for s in STOPS if s != "sandbox"])
def test_every_end_has_its_name(stop: Stop, chatml: Any) -> None:
    turn = ended(stop, chatml)
    assert turn.stop_reason == stop
    assert turn.failed == (stop in FAILED)
    assert bool(turn.answer) == (stop in ("answer", "length", "refused"))
    assert turn.rounds == len(RESPONSES[stop])


def test_no_end_is_without_a_test() -> None:
    assert set(RESPONSES) | {"sandbox"} == set(get_args(Stop))


def test_the_last_rounds_calls_are_not_made(chatml: Any) -> None:
    made: list[Any] = []
    tools = environment()
    counted = [type(t)(t.name, t.description, t.parameters, made.append) for t in tools]
    one = Session(chatml, harness(max_rounds=2), {"environment": counted})
    turn, _ = play(one, chatml, [user("Add")], [ADD, ADD])
    assert turn.stop_reason == "rounds" and len(made) == turn.calls == 1


def test_a_tool_that_says_no_is_the_models_to_read(chatml: Any) -> None:
    one = session(chatml)
    turn, requests = play(one, chatml, [user("Find")], [call("find", '{"id": "y"}'), WRONG, "No."])
    assert turn.stop_reason == "answer"
    assert turn.faults == {"failed": 1, "malformed": 1}
    assert "Error: there is no y" in chatml.decode(requests[1].prompt)
    assert "can't be read" in chatml.decode(requests[2].prompt)


def test_a_tool_that_breaks_ends_the_turn_and_no_other(chatml: Any) -> None:
    one = session(chatml)
    turn, _ = play(one, chatml, [user("Find")], [call("find", '{"id": "broken"}')])
    assert (turn.stop_reason, turn.error) == ("tool", "find: KeyError: 'a bug'")
    with pytest.raises(ValueError, match="no finished turn"):
        one.deliver()
    turn, _ = play(one, chatml, [user("Add")], ["5"])
    assert turn.answer == "5"


def test_a_response_never_outgrows_the_window(chatml: Any) -> None:
    free = session(chatml, tools=[]).begin([user("Hi")], "L1")
    assert isinstance(free, Request)
    length = len(free.prompt)
    tight = session(chatml, tools=[], window=length + 5).begin([user("Hi")], "L1")
    assert isinstance(tight, Request) and tight.params.max_tokens == 5
    full = session(chatml, tools=[], window=length).begin([user("Hi")], "L1")
    assert isinstance(full, Turn) and full.stop_reason == "context"


def test_a_turn_is_in_the_history_exactly_when_delivered(chatml: Any) -> None:
    one = session(chatml)
    play(one, chatml, [user("My name is Ada.")], [ADD, "Noted."])
    assert one.history == [] and one.turns == 0
    one.deliver()
    assert one.history == [user("My name is Ada."), {"role": "assistant", "content": "Noted."}]
    state = one.begin([user("Who am I?")], "L1")
    assert isinstance(state, Request)
    before = state.prompt
    one.advance(completion(chatml, "Bob"))
    one.undo()
    assert len(one.history) == 2 and one.turns == 1
    again = one.begin([user("Who am I?")], "L1")
    assert isinstance(again, Request)
    assert again.prompt == before and again.params == state.params
    assert "Bob" not in chatml.decode(again.prompt)


def test_results_are_cut_to_the_rounds_budget(chatml: Any) -> None:
    one = session(chatml, result_chars=20)
    find = call("find", '{"id": "x"}')
    turn, _ = play(one, chatml, [user("Find")], [find + find, "So."])
    results = [m["content"] for m in turn.messages if m["role"] == "tool"]
    assert results == ['{"id": "x"\n[cut: 10 of 25 characters shown]'] * 2


def test_undo_in_the_middle_of_a_turn(chatml: Any) -> None:
    one = session(chatml)
    first = one.begin([user("Add")], "L1")
    assert isinstance(first, Request)
    one.advance(completion(chatml, ADD))
    one.undo()
    one.undo()
    assert one.begin([user("Add")], "L1") == first


def test_turns_are_begun_and_ended_in_order(chatml: Any) -> None:
    one = session(chatml)
    with pytest.raises(ValueError, match="no finished turn"):
        one.deliver()
    with pytest.raises(ValueError, match="no response is due"):
        one.advance(completion(chatml, "5"))
    one.begin([user("Add")], "L1")
    with pytest.raises(ValueError, match="neither delivered nor undone"):
        one.begin([user("Add")], "L1")
    with pytest.raises(ValueError, match="no finished turn"):
        one.deliver()
    one.advance(completion(chatml, "5"))
    with pytest.raises(ValueError, match="no response is due"):
        one.advance(completion(chatml, "5"))


def test_a_response_needs_a_logprob_a_token(chatml: Any) -> None:
    one = session(chatml)
    one.begin([user("Add")], "L1")
    with pytest.raises(ValueError, match="log-probabilities"):
        one.advance(Completion([1, 2], [0.0], "stop"))


def test_each_specialist_sees_the_others_answers_and_its_own_tokens(chatml: Any) -> None:
    hcp = harness()
    two = dict.fromkeys(("L1", "L2"), hcp.specialists["L1"])
    two["L2"] = two["L2"].model_copy(update={"name": "coding", "system": "You code.", "tools": ()})
    hcp = hcp.model_copy(update={"specialists": two})
    one = Session(chatml, hcp, {"environment": environment()})
    first, _ = play(one, chatml, [user("Add")], [f"Hm. {ADD}", "It is 5."])
    one.deliver()
    _, (request,) = play(one, chatml, [user("Code")], ["print(5)"], "L2")
    one.deliver()
    text = chatml.decode(request.prompt)
    assert text.startswith("<|im_start|>system\nYou code.<|im_end|>")
    assert "Add<|im_end|>" in text and "It is 5.<|im_end|>" in text and "Hm." not in text
    state = one.begin([user("More")], "L1")
    assert isinstance(state, Request)
    assert state.prompt[: len(first.token_ids)] == first.token_ids
    added = chatml.decode(state.prompt[len(first.token_ids) :])
    assert added == (
        "\n<|im_start|>user\nCode<|im_end|>\n<|im_start|>assistant\nprint(5)<|im_end|>\n"
        "<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_refused_message_never_reaches_a_specialist(chatml: Any) -> None:
    hook = {
        "name": "no-bombs",
        "when": "before_turn",
        "pattern": "bomb",
        "action": "refuse",
        "text": "I can't help with that.",
    }
    one = session(chatml, {"hooks": [hook]})
    turn, requests = play(one, chatml, [user("A bomb")], [])
    assert (turn.stop_reason, turn.answer) == ("refused", "I can't help with that.")
    assert requests == [] and turn.token_ids == ()
    one.deliver()
    state = one.begin([user("Hello")], "L1")
    assert isinstance(state, Request)
    text = chatml.decode(state.prompt)
    assert "bomb" not in text and REFUSED in text and "I can't help with that." in text


def test_a_tool_that_would_end_the_process_ends_its_turn_only(chatml: Any) -> None:
    def leave(_: dict[str, Any]) -> Any:
        raise SystemExit(3)

    tools = [Tool("add", "", PARAMETERS, leave), *environment()[1:]]
    session = Session(chatml, harness(), {"environment": tools})
    turn, _ = play(session, chatml, [user("Add.")], [call("add", '{"a": 1, "b": 2}')])
    assert turn.stop_reason == "tool"
    assert "SystemExit" in turn.error


def test_a_closed_session_and_an_unknown_specialist_are_said(chatml: Any) -> None:
    session = Session(chatml, harness(), {"environment": environment()})
    with pytest.raises(ConfigError, match="no specialist 'L9'"):
        session.begin([user("Hi")], "L9")
    session.close()
    session.close()
    with pytest.raises(ValueError, match="the session is closed"):
        session.begin([user("Hi")], "L1")
