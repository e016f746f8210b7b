"""The page as the real app serves it, over a scripted service: the wire format is the app's own."""

from typing import Any

import pytest

from macaron.serve.http.keys import KeyFile
from macaron.serve.http.pages import POLICY
from tests.serve.conftest import Start
from tests.serve.page.browser import Watched
from tests.serve.page.test_page import expect

pytestmark = pytest.mark.full


def test_a_conversation_with_feedback(chromium: Any, start: Start) -> None:
    running = start(model="other-name")
    watched = Watched(chromium, running.url + "/")
    page = watched.page
    expect(page.locator("#served")).to_have_text("generation 2, pair a1b2c3d4")
    turn = watched.send("step;say:It is |**found**.")
    expect(turn.locator(".text")).to_have_text("It is found.")
    expect(turn.locator(".who summary")).to_contain_text("codingrouted, 99 % sure")
    expect(turn.locator(".step .tool")).to_have_text("search")
    expect(turn.locator(".step .result")).to_have_text("found")
    expect(turn.locator(".step .arguments")).to_contain_text('"x": 1')
    turn.get_by_role("button", name="Bad answer").click()
    turn.get_by_role("button", name="It worked").click()
    turn.get_by_role("button", name="Correct").click()
    turn.get_by_label("The answer that you wanted instead").fill("Better.")
    page.keyboard.press("Control+Enter")
    expect(turn.get_by_role("button", name="Corrected")).to_be_visible()
    said = [(id, f.rating, f.outcome, f.correction) for id, _, f in running.service.feedbacks]
    assert said == [
        ("resp_0001", -1, None, None),
        ("resp_0001", None, "success", None),
        ("resp_0001", None, None, "Better."),
    ]
    watched.send("more")
    assert running.service.requests[-1].previous == "resp_0001"
    running.until(lambda: running.service.ends() == ["delivered", "delivered"])
    page.reload()
    expect(page.locator(".text").first).to_have_text("It is found.")
    expect(page.locator(".text").last).to_have_text("more")
    watched.close()


def test_a_stopped_turn_is_withdrawn(chromium: Any, start: Start) -> None:
    running = start()
    watched = Watched(chromium, running.url + "/")
    turn = watched.send("say:A part;sleep:30", wait=False)
    expect(turn.locator(".text")).to_contain_text("A part")
    watched.page.keyboard.press("Escape")
    expect(turn.get_by_role("alert")).to_contain_text("Stopped.")
    running.until(lambda: running.service.ends() == ["withdrawn"])
    assert not running.service.turns
    watched.close()


@pytest.mark.parametrize("script", ["fail:context", "raise:engine", "raise:bug", "begin:busy"])
def test_a_fault_is_one_line(chromium: Any, start: Start, script: str) -> None:
    running = start()
    watched = Watched(chromium, running.url + "/")
    turn = watched.send(script, wait=False)
    line = turn.get_by_role("alert")
    expect(line).to_be_visible()
    assert line.inner_text().strip() and "\n" not in line.inner_text()
    assert "secret" not in line.inner_text()
    expect(turn.get_by_role("button", name="Send again")).to_be_visible()
    watched.close()


def test_a_forgotten_conversation_and_a_cut_answer(chromium: Any, start: Start) -> None:
    running = start()
    watched = Watched(chromium, running.url + "/")
    turn = watched.send("say:cut;stop:length")
    expect(turn.locator(".note")).to_have_text("Cut off at the length limit.")
    running.service.turns.clear()
    turn = watched.send("on", wait=False)
    turn.get_by_role("button", name="Send in a new one").click()
    expect(watched.page.locator("[data-state=done]")).to_have_count(2)
    watched.close()


def test_a_key_opens_it(chromium: Any, start: Start, tmp_path: Any) -> None:
    key = KeyFile(tmp_path / "keys.json").add("page", ["chat", "feedback"])
    running = start()
    watched = Watched(chromium, running.url + "/")
    turn = watched.send("hello", wait=False)
    watched.page.get_by_role("dialog").get_by_label("Key", exact=True).fill(key)
    watched.page.keyboard.press("Enter")
    expect(turn.locator(".text")).to_have_text("hello")
    watched.close()


def test_a_preview_has_its_style(chromium: Any, start: Start) -> None:
    running = start()
    watched = Watched(chromium, running.url + "/")
    turn = watched.send("say:```html\n<p>Hi</p>\n```")
    turn.get_by_role("button", name="Preview").click()
    text = turn.frame_locator("iframe").locator("p")
    expect(text).to_have_css("font-size", "15px")
    expect(turn.frame_locator("iframe").locator("style")).to_have_count(1)
    response = watched.page.reload()
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    watched.close()
