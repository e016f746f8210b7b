"""The page for everybody: keyboard only, a phone, both colour schemes, a screen reader's tree, and
a tab that is loaded again or asked for a key."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serve.page.browser import Watched
from tests.serve.page.stand_in import PageServer, Scripted
from tests.serve.page.test_page import CODE, STEPS, expect

pytestmark = pytest.mark.full

WIDE = "| a | b |\n|---|---|\n| " + "long" * 60 + " | c |\n\n`" + "x" * 300 + "`\n\n" + "y" * 300
UI = "```html\n<h2>Book</h2><button>Go</button>\n```"
PHONE = {"width": 360, "height": 740}

# Ratio of every visible text to what is behind it, as WCAG 2 counts it; those below 4.5.
PALE = """() => {
  const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const colour = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = colour(getComputedStyle(node).backgroundColor);
      if ((found[3] ?? 1) > 0) return found;
    }
  };
  const texts = [...document.querySelectorAll("body *")].filter((node) =>
    node.checkVisibility() && (node.placeholder ||
      [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim())));
  const ratio = (node) => {
    const style = getComputedStyle(node, node.placeholder ? "::placeholder" : null);
    const [a, b] = [light(colour(style.color)), light(behind(node))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const told = (node) => `${node.tagName} ${node.className} ${ratio(node)} ${node.textContent}`;
  return { count: texts.length, pale: texts.filter((node) => ratio(node) < 4.5).map(told) };
}"""

SMALL = """() => [...document.querySelectorAll("button, summary, #message")]
  .filter((node) => node.checkVisibility())
  .map((node) => [node.textContent, node.getBoundingClientRect()])
  .filter(([, box]) => box.width < 44 || box.height < 44)
  .map(([text, box]) => `${text} ${box.width} x ${box.height}`)"""


def fill(watched: Watched, server: PageServer) -> None:
    """A turn of every kind, with all that opens open."""
    page = watched.page
    for name in ("chat", "agent", "coding", "genui", "law", "music"):
        server.answers[name] = Scripted((CODE, "\n\n> quoted [here](https://a.example/)"), name)
        watched.send(name)
    server.answers["steps"] = Scripted((WIDE,), "agent", steps=STEPS)
    watched.send("steps")
    server.answers["ui"] = Scripted((UI,), "genui")
    watched.send("ui").get_by_role("button", name="Preview").click()
    server.answers["bad"] = Scripted(("A part",), fails="It failed. " + "z" * 200)
    watched.send("bad", wait=False).get_by_role("alert").wait_for()
    for summary in page.locator("summary").all():
        summary.click()
    page.get_by_role("button", name="Good answer").first.click()
    page.get_by_role("button", name="Correct").first.click()


@pytest.fixture(params=["light", "dark"])
def phone(request: Any, chromium: Any, server: PageServer) -> Iterator[Watched]:
    """A phone, in both colour schemes, for somebody who wants no motion."""
    options = {
        "viewport": PHONE,
        "has_touch": True,
        "is_mobile": True,
        "color_scheme": request.param,
    }
    watched = Watched(chromium, server.url, reduced_motion="reduce", **options)
    yield watched
    watched.close()


def test_a_phone_shows_all_without_scrolling_sideways(phone: Watched, server: PageServer) -> None:
    fill(phone, server)
    assert phone.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert phone.page.evaluate("document.body.scrollWidth") <= PHONE["width"]
    assert phone.page.evaluate(SMALL) == []


def test_texts_stand_out_in_both_schemes(phone: Watched, server: PageServer) -> None:
    fill(phone, server)
    found = phone.page.evaluate(PALE)
    assert found["count"] > 100
    assert found["pale"] == []


def test_no_motion_for_those_who_want_none(phone: Watched, server: PageServer) -> None:
    server.answers["slow"] = Scripted(("Part",), hangs=True)
    turn = phone.send("slow", wait=False)
    expect(turn.locator(".text")).to_contain_text("Part")
    assert phone.page.evaluate("document.getAnimations().length") == 0


def test_the_schemes_differ(chromium: Any, server: PageServer) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        watched = Watched(chromium, server.url, color_scheme=scheme)
        grounds.add(
            watched.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        )
        watched.close()
    assert len(grounds) == 2


def test_a_keyboard_is_enough(watched: Watched, server: PageServer) -> None:
    page, press = watched.page, watched.page.keyboard.press
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    server.answers["one\ntwo"] = Scripted(("Part",), hangs=True)
    page.keyboard.type("one")
    press("Shift+Enter")
    page.keyboard.type("two")
    press("Enter")
    expect(page.locator(".text")).to_contain_text("Part")
    press("Escape")
    expect(page.get_by_role("alert").filter(has_text="Stopped")).to_be_visible()
    server.answers["one\ntwo"] = Scripted(("Whole.",))
    press("Shift+Tab")
    expect(page.get_by_role("button", name="Send again")).to_be_focused()
    press("Enter")
    expect(page.locator(".text")).to_have_text("Whole.")
    assert server.requests[-1]["input"] == "one\ntwo"


def test_the_focus_goes_through_the_page_in_order_and_is_seen(
    watched: Watched, server: PageServer
) -> None:
    server.answers["x"] = Scripted(("Hello",), steps=STEPS[:1])
    watched.send("x")
    page, seen = watched.page, []
    # From the very start, as after a click into the address bar and out of it.
    page.reload()
    page.locator(".who").wait_for()
    page.keyboard.press("Shift+Tab")
    page.locator(".skip").focus()
    name = "(n) => n.getAttribute('aria-label') ?? n.textContent.trim().replace(/\\s+/g, ' ')"
    for _ in range(11):
        focused = page.evaluate_handle("document.activeElement")
        seen.append(page.evaluate(f"(n) => n.id === 'message' ? 'Message' : ({name})(n)", focused))
        style = "(n) => getComputedStyle(n.id === 'message' ? n.form : n)"
        shown = f"(n) => [({style})(n).outlineStyle, ({style})(n).boxShadow]"
        assert page.evaluate(shown, focused) != ["none", "none"], seen
        page.keyboard.press("Tab")
    assert seen == [
        "Skip to the message field", "New conversation", "chatrouted, 98 % sure", "finddone",
        "Good answer", "Bad answer", "It worked", "It failed", "Correct", "Message", "Send",
    ]  # fmt: skip


def test_a_correction_is_given_up_with_escape(watched: Watched, server: PageServer) -> None:
    turn = watched.send("x")
    turn.get_by_role("button", name="Correct").press("Enter")
    turn.get_by_label("The answer that you wanted instead").press("Escape")
    expect(turn.get_by_role("button", name="Correct")).to_be_focused()
    expect(turn.locator("form")).to_have_count(0)
    assert server.feedback == []


def test_a_screen_reader_finds_names_and_hears_answers(
    watched: Watched, server: PageServer
) -> None:
    server.answers["x"] = Scripted(("Hello",), steps=STEPS[:1])
    watched.send("x")
    expect(watched.page.locator("#announcer")).to_have_text("Answer from chat: Hello")
    expect(watched.page.locator("body")).to_match_aria_snapshot("""
      - link "Skip to the message field"
      - banner:
        - heading "Macaron" [level=1]
        - button "New conversation"
      - main:
        - heading "Conversation" [level=2]
        - list "Turns":
          - listitem:
            - paragraph: "You: x"
            - article "Answer from chat":
              - list "Tools used":
                - listitem
              - paragraph: Hello
              - group "Feedback on this answer":
                - button "Good answer"
                - button "Bad answer"
                - button "It worked"
                - button "It failed"
                - button "Correct"
                - status
      - contentinfo:
        - alert
        - form "New message":
          - textbox "Message"
          - button "Send"
        - status: "Answer from chat: Hello"
    """)


def test_a_key_is_asked_for_used_and_forgotten(watched: Watched, server: PageServer) -> None:
    server.key = "sk-right"
    page = watched.page
    turn = watched.send("x", wait=False)
    dialog = page.get_by_role("dialog", name="API key")
    expect(dialog).to_contain_text("The server asks for an API key.")
    expect(dialog.get_by_label("Key", exact=True)).to_be_focused()
    page.keyboard.type("sk-wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("The server refused this key.")
    page.keyboard.type("sk-right")
    page.keyboard.press("Enter")
    expect(turn.locator(".text")).to_have_text("Hello there.")
    assert page.evaluate("localStorage.length") == 0
    assert page.context.cookies() == []
    page.reload()
    expect(page.locator(".text")).to_have_text("Hello there.")
    page.get_by_role("button", name="API key").click()
    dialog.get_by_role("button", name="Forget key").click()
    assert "sk-right" not in page.evaluate("JSON.stringify({...sessionStorage})")


def test_a_key_that_is_not_given_leaves_an_error(watched: Watched, server: PageServer) -> None:
    server.key = "sk-right"
    turn = watched.send("x", wait=False)
    watched.page.get_by_role("dialog").wait_for()
    watched.page.keyboard.press("Escape")
    expect(turn.get_by_role("alert")).to_have_text("This server needs an API key.")


def test_a_conversation_outlives_a_reload(watched: Watched, server: PageServer) -> None:
    server.answers["one"] = Scripted((CODE,), "coding", steps=STEPS)
    watched.send("one").get_by_role("button", name="Good answer").click()
    watched.send("two")
    before = watched.page.locator("#turns").inner_text().replace("Saved", "").split()
    watched.page.reload()
    expect(watched.page.locator(".turn")).to_have_count(2)
    assert watched.page.locator("#turns").inner_text().split() == before
    good = watched.page.get_by_role("button", name="Good answer").first
    expect(good).to_have_attribute("aria-pressed", "true")
    watched.send("three")
    assert server.requests[-1]["previous_response_id"] == "resp_2"


def test_what_the_server_forgot_is_said(watched: Watched, server: PageServer) -> None:
    page = watched.page
    watched.send("one")
    watched.send("two")
    server.stored.clear()
    turn = watched.send("three", wait=False)
    expect(turn.get_by_role("alert")).to_have_text("The server has forgotten this conversation.")
    turn.get_by_role("button", name="Send in a new one").click()
    expect(page.locator("[data-state=done]")).to_have_count(3)
    assert server.requests[-1]["previous_response_id"] is None
    server.stored.clear()
    page.reload()
    expect(page.get_by_text("The server has forgotten this answer.")).to_have_count(3)
    expect(page.locator("#notice")).to_contain_text("has forgotten this conversation")
    watched.send("four")
    assert server.requests[-1]["previous_response_id"] is None


def test_a_server_that_is_away_is_said(watched: Watched, server: PageServer) -> None:
    watched.context.set_offline(True)
    turn = watched.send("x", wait=False)
    expect(turn.get_by_role("alert")).to_have_text("The server cannot be reached. Is it running?")
    watched.context.set_offline(False)
    turn.get_by_role("button", name="Send again").click()
    expect(watched.page.locator(".turn .text")).to_have_text("Hello there.")
    watched.errors.clear()  # Chromium's own line for the request without a network.
