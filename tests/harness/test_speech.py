"""What is shown of a response while it is sampled is the beginning of what is answered."""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from macaron.harness.session import Session
from macaron.harness.speech import Speech
from macaron.harness.template import template_of
from macaron.harness.turn import Request, Turn
from macaron.harness.wishes import Wishes
from tests.harness.play import completion, harness, user
from tests.harness.test_past import SETTING

PARTS = st.sampled_from(
    [
        "a",
        " ",
        "\n",
        "<",
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "STOP",
        "ST",
        "é",
        "语",
        "{",
    ]
)


def bare() -> Any:
    hcp = harness()
    specialists = {"L1": hcp.specialists["L1"].model_copy(update={"tools": ()})}
    return hcp.model_copy(update={"specialists": specialists, "tools": {}})


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(PARTS, max_size=9), st.booleans(), st.integers(1, 4))
@example(["<think>", "a", "</think>", "\n", "b"], False, 1)
@example(["a", "ST"], False, 1)
def test_pieces_join_to_the_answer(chatml: Any, parts: list[str], tools: bool, size: int) -> None:
    text = "".join(parts)
    setting = {"setting": SETTING} if tools else {}
    one = Session(chatml, bare())
    state = one.begin([user("Hi")], "L1", Wishes(stop=("STOP",)), **setting)
    assert isinstance(state, Request)
    done = completion(chatml, text)
    speech, shown = one.speech(), ""
    for start in range(0, len(done.token_ids), size):
        shown += speech.feed(done.token_ids[start : start + size])
        assert speech.shown == shown
    end = one.advance(done)
    if not isinstance(end, Turn):
        return
    closed = text.split("STOP")[0].count("</think>")
    if closed > 1 or (closed and not text.lstrip().startswith("<think>")):
        # A thought that ends without having begun takes back what was shown: such a turn fails.
        return
    assert end.answer.startswith(shown), (shown, end.answer)
    assert shown + speech.rest(end.answer) == end.answer
    assert speech.stopped == ("STOP" in text)


def test_plain_text_is_shown_as_it_comes(chatml: Any) -> None:
    speech = Speech(template_of(chatml), ())
    pieces = [speech.feed([i]) for i in chatml.encode("Hello there", add_special_tokens=False)]
    assert "".join(pieces) == "Hello there" and sum(map(bool, pieces)) > 1


def test_nothing_is_shown_of_what_is_decided_at_the_end(chatml: Any) -> None:
    hook = {"name": "x", "when": "after_turn", "pattern": "l", "action": "replace", "text": "L"}
    one = Session(chatml, harness({"hooks": [hook]}, tools=[]))
    one.begin([user("Hi")], "L1")
    speech, done = one.speech(), completion(chatml, "Hello")
    assert speech.feed(done.token_ids) == ""
    end = one.advance(done)
    assert isinstance(end, Turn) and speech.rest(end.answer) == "HeLLo"
    other = Speech(template_of(chatml), ())
    other.feed(done.token_ids)
    with pytest.raises(ValueError, match="not the beginning"):
        other.rest("Other")
