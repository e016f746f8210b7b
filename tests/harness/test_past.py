"""A session that goes on from its past: the same views, token for token, as if never ended."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from macaron.harness.past import folded
from macaron.harness.session import Session
from macaron.harness.tools import Tool
from macaron.harness.turn import Request, Turn
from macaron.harness.view import Setting
from macaron.harness.wishes import Wishes
from macaron.hcp.document import HCP
from macaron.messages import Message
from tests.harness.play import ADD, call, completion, environment, harness, play, user

PAY = Tool("pay", "Pays.", ADD, lambda _: pytest.fail("the client's tool was called here"))
SETTING = Setting(tools=(PAY,))


def document(**memory: int) -> HCP:
    hcp = harness({"memory": {"summary_tokens": 8, **memory}})
    second = hcp.specialists["L1"].model_copy(update={"name": "chat", "system": "You chat."})
    return hcp.model_copy(update={"specialists": {**hcp.specialists, "L0": second}})


def turn(
    one: Session, tokenizer: Any, text: str, specialist: str, responses: Sequence[str]
) -> list[Request]:
    """A delivered turn, summed up where it was long; what was asked of the engine."""
    for n in one.untold(specialist):
        one.summarise(n, f"sum of {n}")
    done, requests = play(one, tokenizer, [user(text)], responses, specialist)
    assert not done.failed
    one.deliver()
    return requests


TURNS = st.lists(
    st.tuples(
        st.sampled_from(["L0", "L1"]),
        st.sampled_from([["Yes."], ["A long answer of many words, too long."], ["", "It is 5."]]),
    ),
    min_size=1,
    max_size=7,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(TURNS, st.sampled_from([0, 1, 2]))
def test_a_session_that_is_rebuilt_asks_for_the_same_tokens(
    chatml: Any, turns: list[tuple[str, list[str]]], keep: int
) -> None:
    hcp, sources = document(keep_turns=keep), {"environment": environment()}
    live = Session(chatml, hcp, sources, seed=3)
    for n, (specialist, said) in enumerate(turns):
        responses = [text or call("add", '{"a": 2, "b": 3}') for text in said]
        again = Session(chatml, hcp, sources, seed=3, past=list(live.past))
        mine = turn(live, chatml, f"Turn {n}", specialist, responses)
        assert turn(again, chatml, f"Turn {n}", specialist, responses) == mine
        assert again.past == live.past and again.history == live.history


def test_coming_back_extends_what_was_seen_and_tells_others_turns_short(chatml: Any) -> None:
    one = Session(chatml, document(), {"environment": environment()})
    (first,) = turn(one, chatml, "One", "L1", ["My own words, all of them, whatever their number."])
    turn(one, chatml, "Two", "L0", ["What another specialist said at great length."])
    (third,) = turn(one, chatml, "Three", "L1", ["Done."])
    text = chatml.decode(third.prompt)
    assert third.prompt[: len(first.prompt)] == first.prompt, "the prefix is another"
    assert "My own words, all of them" in text
    assert "sum of 1" in text and "great length" not in text


def test_own_turns_fold_in_steps(chatml: Any) -> None:
    assert [folded(own, 2) for own in range(8)] == [0, 0, 0, 0, 2, 2, 4, 4]
    assert folded(9, 0) == 0
    one = Session(chatml, document(keep_turns=1), {"environment": environment()})
    for n in range(3):
        turn(one, chatml, f"Turn {n}", "L1", ["Words that are many more than eight tokens long."])
    (last,) = turn(one, chatml, "Last", "L1", ["End."])
    text = chatml.decode(last.prompt)
    assert "sum of 0" in text and "sum of 1" in text and text.count("Words that are") == 1


def test_a_clients_tool_goes_to_the_client_and_comes_back(chatml: Any) -> None:
    one = Session(chatml, document(), {"environment": environment()})
    made, asked_for = call("add", '{"a": 2, "b": 3}'), call("pay", '{"a": 1, "b": 2}')
    both = f"First. {made}{asked_for}"
    state = one.begin([user("Pay")], "L1", setting=SETTING)
    assert isinstance(state, Request) and '"pay"' in chatml.decode(state.prompt)
    asked = one.advance(completion(chatml, both))
    assert isinstance(asked, Turn) and asked.stop_reason == "calls" and asked.answer == "First."
    (open_call,) = asked.open_calls
    assert open_call["function"] == {"name": "pay", "arguments": '{"a": 1, "b": 2}'}
    one.deliver()
    again = Session(chatml, document(), {"environment": environment()}, past=list(one.past))
    result: Message = {"role": "tool", "content": "paid", "tool_call_id": open_call["id"]}
    requests = []
    for session in (one, again):
        request = session.begin([result], "L1", setting=SETTING)
        assert isinstance(request, Request)
        requests.append(request)
        end = session.advance(completion(chatml, "All done."))
        assert isinstance(end, Turn) and end.answer == "All done."
        session.deliver()
    assert requests[0] == requests[1]
    text = chatml.decode(requests[0].prompt)
    assert text.startswith(chatml.decode(state.prompt))
    assert text.index("<|im_start|>tool\n5") < text.index("<|im_start|>tool\npaid")
    # To another specialist, the calls are no matter: it hears the question and what came of it.
    other = one.begin([user("And?")], "L0")
    assert isinstance(other, Request)
    heard = chatml.decode(other.prompt)
    assert "Pay" in heard and "All done." in heard and "paid" not in heard


def test_calls_that_nobody_answers_are_told_as_such(chatml: Any) -> None:
    bare = document().model_copy(update={"tools": {}})
    specialists = {k: s.model_copy(update={"tools": ()}) for k, s in bare.specialists.items()}
    one = Session(chatml, bare.model_copy(update={"specialists": specialists}))
    one.begin([user("Pay")], "L1", setting=SETTING)
    one.advance(completion(chatml, call("pay", '{"a": 1, "b": 2}')))
    one.deliver()
    state = one.begin([user("Never mind")], "L0")
    assert isinstance(state, Request) and "(no answer)" in chatml.decode(state.prompt)


def test_a_clients_call_is_checked_like_any_other(chatml: Any) -> None:
    hook = {
        "name": "no",
        "when": "before_tool",
        "pattern": "9",
        "action": "refuse",
    }
    hcp = document().model_copy(update={"hooks": harness({"hooks": [hook]}).hooks})
    one = Session(chatml, hcp, {"environment": environment()})
    one.begin([user("Pay")], "L1", setting=SETTING)
    for wrong in ('{"a": 1}', '{"a": 9, "b": 1}'):
        state = one.advance(completion(chatml, call("pay", wrong)))
        assert isinstance(state, Request) and "Error:" in chatml.decode(state.prompt[-60:])


def test_a_turns_wishes_are_its_own(chatml: Any) -> None:
    one = Session(chatml, document(), {"environment": environment()}, seed=1)
    wishes = Wishes(temperature=0.3, top_p=0.5, max_tokens=3, stop=("END",), seed=8)
    state = one.begin([user("Hi")], "L1", wishes)
    assert isinstance(state, Request)
    params = state.params
    assert (params.temperature, params.top_p, params.max_tokens) == (0.3, 0.5, 3)
    ended = one.advance(completion(chatml, "So END more"))
    assert isinstance(ended, Turn) and ended.answer == "So "
    one.deliver()
    other = Session(chatml, document(), {"environment": environment()}, seed=2)
    same = other.begin([user("Hi")], "L1", wishes)
    assert same == state, "the turn's seed decides, not the session's"
    plain = one.begin([user("Hi")], "L1")
    assert isinstance(plain, Request) and plain.params.max_tokens == 64


def test_a_response_can_be_made_to_begin_with_a_call(chatml: Any) -> None:
    one = Session(chatml, document(), {"environment": environment()})
    head = '<tool_call>\n{"name": "pay", "arguments": '
    state = one.begin([user("Hi")], "L1", Wishes(opening=head), SETTING)
    assert isinstance(state, Request) and chatml.decode(state.prompt).endswith(head)
    speech = one.speech()
    done = completion(chatml, '{"a": 1, "b": 2}}\n</tool_call>')
    assert speech.feed(done.token_ids) == ""
    asked = one.advance(done)
    assert isinstance(asked, Turn) and asked.stop_reason == "calls"
    mine = [i for i, mask in zip(asked.token_ids, asked.loss_mask, strict=True) if mask]
    assert mine == done.token_ids, "what was not sampled is not learned from"
