"""Skills: given when a text calls for them or when asked for, once a session."""

from typing import Any

from macaron.harness.session import Session
from macaron.harness.turn import Request
from tests.harness.play import call, harness, play, user

SKILLS = {
    "dates": {
        "description": "How to write dates.",
        "text": "Year first.",
        "trigger": r"(?i)\bdate",
    },
    "rates": {"description": "What a rate is.", "text": "A rate is a share."},
}
LOAD = {
    "load_skill": {
        "description": "Loads a skill.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
        "source": "builtin",
    }
}


def session(tokenizer: Any) -> Session:
    hcp = harness(
        {"skills": SKILLS, "tools": LOAD}, tools=["load_skill"], skills=["dates", "rates"]
    )
    return Session(tokenizer, hcp)


def test_a_skill_stands_behind_the_text_that_calls_for_it(chatml: Any) -> None:
    one = session(chatml)
    _, requests = play(one, chatml, [user("What date?")], ["2026"])
    said = "What date?\n\n[skill: dates]\nYear first.<|im_end|>"
    assert said in chatml.decode(requests[0].prompt)
    one.deliver()
    assert one.history[0] == user("What date?")
    _, requests = play(one, chatml, [user("And that date?")], ["2027"])
    assert chatml.decode(requests[0].prompt).count("Year first.") == 1, "once a session"


def test_an_undone_turns_skill_is_given_again(chatml: Any) -> None:
    one = session(chatml)
    _, (first,) = play(one, chatml, [user("What date?")], ["2026"])
    one.undo()
    again = one.begin([user("What date?")], "L1")
    assert isinstance(again, Request) and again.prompt == first.prompt


def test_a_skill_is_given_on_request(chatml: Any) -> None:
    asked = call("load_skill", '{"name": "rates"}')
    wrong = call("load_skill", '{"name": "fates"}')
    turn, requests = play(session(chatml), chatml, [user("Hi")], [asked, asked, wrong, "So."])
    shown = chatml.decode(requests[0].prompt)
    assert "- dates: How to write dates." in shown and "- rates: What a rate is." in shown
    texts = [m["content"] for m in turn.messages if m["role"] == "tool"]
    assert texts[0] == "A rate is a share."
    assert texts[1] == "rates is loaded already; read it above"
    assert texts[2] == "Error: no skill is named 'fates'; the skills are: dates, rates"
