"""The web page in a real Chromium, against a stand-in for the server (`stand_in.py`)."""

import time
from typing import Any

import pytest

from tests.serve.page.browser import Watched
from tests.serve.page.stand_in import HCP, PAIR, PageServer, Scripted

pytestmark = pytest.mark.full

CODE = "Use `sorted`:\n\n```python\nsorted(words, key=len)\n```\n\n- **stable**\n- a new list"
STEPS = [
    {"name": "find", "arguments": '{"who": "Ada"}', "result": "[1041]", "call_id": "call_1"},
    {"name": "refund", "arguments": '{"order": 1041}', "result": "done", "call_id": "call_2"},
]


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as of_playwright

    return of_playwright(locator)


def test_an_answer_is_shown_with_its_specialist_and_why(
    watched: Watched, server: PageServer
) -> None:
    server.answers["sort"] = Scripted((CODE[:20], CODE[20:]), "coding", "routed", "0.993")
    turn = watched.send("sort")
    expect(turn.locator(".asked")).to_have_text("You: sort")
    expect(turn.locator(".text pre")).to_have_text("sorted(words, key=len)")
    expect(turn.locator(".text strong")).to_have_text("stable")
    expect(turn.locator(".text li")).to_have_count(2)
    expect(turn.locator(".who summary")).to_contain_text("coding")
    expect(turn.locator(".who summary")).to_contain_text("routed, 99 % sure")
    expect(turn.get_by_text(PAIR)).to_be_hidden()
    turn.locator(".who summary").click()
    for shown in (PAIR, HCP, "0.993", "resp_1"):
        expect(turn.get_by_text(shown).first).to_be_visible()
    expect(watched.page.locator("#served")).to_contain_text(f"generation 4, pair {PAIR[:12]}")


@pytest.mark.parametrize(
    ("route", "words"),
    [("tool_result", "its own tool call"), ("default", "default"), ("only", "only specialist")],
)
def test_every_way_to_a_specialist_has_words(
    watched: Watched, server: PageServer, route: str, words: str
) -> None:
    server.answers["x"] = Scripted(route=route, confidence=None)
    expect(watched.send("x").locator(".why")).to_have_text(words)


def test_a_turn_goes_on_from_the_one_before(watched: Watched, server: PageServer) -> None:
    watched.send("one")
    watched.send("two")
    assert [r["previous_response_id"] for r in server.requests] == [None, "resp_1"]
    assert all(r["stream"] for r in server.requests)
    watched.page.get_by_role("button", name="New conversation").click()
    expect(watched.page.locator(".turn")).to_have_count(0)
    watched.send("three")
    assert server.requests[-1]["previous_response_id"] is None


def test_text_is_shown_while_it_comes(watched: Watched, server: PageServer) -> None:
    server.answers["slow"] = Scripted(("The first part,",), hangs=True)
    turn = watched.send("slow", wait=False)
    expect(turn.locator(".text")).to_contain_text("The first part,")
    expect(turn.locator("article")).to_have_attribute("aria-busy", "true")
    expect(watched.page.get_by_role("status").last).to_have_text("chat is answering.")


def test_a_stopped_turn_is_not_in_the_conversation(watched: Watched, server: PageServer) -> None:
    watched.send("one")
    server.answers["slow"] = Scripted(("Part",), hangs=True)
    turn = watched.send("slow", wait=False)
    expect(turn.locator(".text")).to_contain_text("Part")
    watched.page.get_by_role("button", name="Stop").click()
    expect(turn.get_by_role("alert")).to_have_text(
        "Stopped. This turn is not part of the conversation."
    )
    server.answers["slow"] = Scripted(("All of it.",))
    turn.get_by_role("button", name="Send again").click()
    expect(watched.page.locator(".turn").last.locator(".text")).to_have_text("All of it.")
    expect(watched.page.locator(".turn")).to_have_count(2)
    assert [r["previous_response_id"] for r in server.requests] == [None, "resp_1", "resp_1"]
    ends = time.monotonic() + 10
    while not server.gone and time.monotonic() < ends:
        time.sleep(0.05)
    assert server.gone == 1


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (Scripted(fails="The engine\nstopped."), "The engine stopped."),
        (Scripted(breaks=True), "The connection ended before the answer was complete."),
        (Scripted(status=429, fails="Too many."), "Too many. Try again in 7 s."),
        (Scripted(status=500, fails="A fault of ours."), "A fault of ours."),
    ],
    ids=["failed", "broken", "limit", "fault"],
)
def test_an_error_is_one_line_and_can_be_tried_again(
    watched: Watched, server: PageServer, script: Scripted, line: str
) -> None:
    server.answers["x"] = script
    turn = watched.send("x", wait=False)
    expect(turn.get_by_role("alert")).to_have_text(line)
    server.answers["x"] = Scripted(("Now.",))
    turn.get_by_role("button", name="Send again").click()
    expect(watched.page.locator(".turn .text")).to_have_text("Now.")


def test_an_answer_that_reached_its_limit_says_so(watched: Watched, server: PageServer) -> None:
    server.answers["x"] = Scripted(incomplete=True)
    expect(watched.send("x").locator(".note")).to_have_text("Cut off at the length limit.")


def test_tool_steps_are_lines_that_open(watched: Watched, server: PageServer) -> None:
    server.answers["refund"] = Scripted(("Done.",), "agent", steps=STEPS)
    turn = watched.send("refund")
    steps = turn.locator(".step")
    expect(steps).to_have_count(2)
    expect(steps.first.locator(".arguments")).to_be_hidden()
    steps.first.locator("summary").click()
    expect(steps.first.locator(".arguments")).to_have_text('{\n  "who": "Ada"\n}')
    expect(steps.first.locator(".result")).to_contain_text("1041")
    expect(steps.last.locator(".state")).to_have_text("done")


def test_a_running_step_says_that_it_runs(watched: Watched, server: PageServer) -> None:
    server.answers["refund"] = Scripted(steps=STEPS, pause_s=20)
    turn = watched.send("refund", wait=False)
    expect(turn.locator(".step .state")).to_have_text("running")


def test_feedback_names_its_turn(watched: Watched, server: PageServer) -> None:
    first = watched.send("one")
    watched.send("two")
    first.get_by_role("button", name="Good answer").click()
    expect(first.get_by_role("button", name="Good answer")).to_have_attribute(
        "aria-pressed", "true"
    )
    first.get_by_role("button", name="Good answer").click()
    expect(first.get_by_role("button", name="Good answer")).to_have_attribute(
        "aria-pressed", "false"
    )
    watched.page.get_by_role("button", name="Bad answer").last.click()
    watched.page.get_by_role("button", name="It failed").last.click()
    expect(watched.page.get_by_role("button", name="It failed").last).to_have_attribute(
        "aria-pressed", "true"
    )
    assert server.feedback == [
        {"id": "resp_1", "rating": 1},
        {"id": "resp_1", "rating": 0},
        {"id": "resp_2", "rating": -1},
        {"id": "resp_2", "outcome": "failure"},
    ]


def test_a_correction_starts_from_the_answer(watched: Watched, server: PageServer) -> None:
    turn = watched.send("one")
    turn.get_by_role("button", name="Correct").click()
    field = turn.get_by_label("The answer that you wanted instead")
    expect(field).to_have_value("Hello there.")
    expect(field).to_be_focused()
    field.fill("Good evening.")
    turn.get_by_role("button", name="Save correction").click()
    expect(turn.get_by_role("button", name="Corrected")).to_be_focused()
    assert server.feedback == [{"id": "resp_1", "correction": "Good evening."}]


def test_feedback_that_was_not_kept_does_not_look_kept(
    watched: Watched, server: PageServer
) -> None:
    server.feedback_status = 403
    turn = watched.send("one")
    turn.get_by_role("button", name="Good answer").click()
    expect(turn.locator(".saved")).to_have_text("Not saved: This key may not give feedback.")
    expect(turn.get_by_role("button", name="Good answer")).to_have_attribute(
        "aria-pressed", "false"
    )
