"""Answers that try to become more than text. Each also goes through a preview, and none may run,
load, ask or leave: no dialog, no pop-up, no request beyond the origin, no global, no navigation."""

import json
import tomllib
import zipfile
from pathlib import Path

import pytest

from macaron.serve.http.pages import FOLDER
from tests.serve.page.browser import Watched
from tests.serve.page.stand_in import PageServer, Scripted
from tests.serve.page.test_page import expect

RUN = "top.hit=1;parent.hit=1;window.hit=1;alert(1);fetch(`https://evil.example/`)"
TEXTS = tomllib.loads((Path(__file__).parent / "attacks.toml").read_text())
ATTACKS = {name: text.replace("RUN", RUN) for name, text in TEXTS.items()}
KINDS = ("html", "tsx", "json")
TSX = """export default function Trip() {
  return (
    <Card title="Trip"><Go on={() => 1} />
      <p>{"Hi"} {n > 1}</p></Card>
  )
}"""
TREE = {"type": "Card", "title": "Trip", "children": [{"type": "Button", "label": "Go <now>"}]}


def generated(kind: str, attack: str) -> str:
    code = {
        "html": attack,
        "tsx": f"export default () => (\n<Card title='x'>{attack}</Card>)",
        "json": json.dumps(
            {"type": "Card", "text": attack, "children": [{"type": "Text", "text": attack}]}
        ),
    }
    return f"``````{kind}\n{code[kind]}\n``````"


@pytest.mark.full
@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_that_a_model_writes_runs(watched: Watched, server: PageServer, name: str) -> None:
    attack = ATTACKS[name]
    fences = "\n\n".join(generated(kind, attack) for kind in KINDS)
    step = {"name": attack, "arguments": attack, "result": attack, "call_id": "c"}
    server.answers[attack.strip()] = Scripted(
        (attack, "\n\n", fences, "\n\n", attack[:40]), attack.encode().hex(), steps=[step]
    )
    page = watched.page
    turn = watched.send(attack)
    for preview in turn.get_by_role("button", name="Preview").all():
        preview.click()
    for summary in turn.locator("summary").all():
        summary.click()
    expect(turn.locator("iframe")).to_have_count(len(KINDS))
    for frame in range(len(KINDS)):
        style = turn.frame_locator("iframe").nth(frame).locator("style")
        style.first.wait_for(state="attached")
    for link in turn.locator(".text a").all():
        assert link.get_attribute("href").startswith("https://")
    page.wait_for_timeout(100)
    assert page.url == watched.url
    assert page.evaluate("window.hit") is None
    made = "#turns :is(script, style, link, meta, base, object, embed, img, video, form[action])"
    assert page.locator(made).count() == 0
    assert all(f.get_attribute("sandbox") == "" for f in turn.locator("iframe").all())
    assert turn.locator(".asked").inner_text().endswith(attack.strip()[-10:])
    # What the browser wrote about what it refused is no fault here.
    watched.errors = [e for e in watched.errors if "Content Security Policy" not in e]
    watched.errors = [e for e in watched.errors if "sandboxed" not in e]


@pytest.mark.full
@pytest.mark.parametrize("name", ATTACKS)
def test_the_frame_alone_holds(watched: Watched, name: str) -> None:
    """Without anything removed before: what is removed is removed for quiet."""
    watched.page.evaluate(
        """async (markup) => {
          const { fenced } = await import("/preview.js");
          document.querySelector("main").append(fenced("html", markup));
        }""",
        ATTACKS[name],
    )
    watched.page.frame_locator("main > iframe").locator("style").first.wait_for(state="attached")
    watched.page.wait_for_timeout(100)
    assert watched.page.url == watched.url
    assert watched.page.evaluate("window.hit") is None
    watched.errors.clear()


@pytest.mark.full
def test_a_preview_shows_elements_and_texts(watched: Watched, server: PageServer) -> None:
    fences = [f"```tsx\n{TSX}\n```", f"```json\n{json.dumps(TREE)}\n```", "```json\n[1]\n```"]
    server.answers["ui"] = Scripted(("\n\n".join(fences),))
    turn = watched.send("ui")
    expect(turn.locator("figure.code")).to_have_count(3)
    expect(turn.get_by_role("button", name="Preview")).to_have_count(2)
    for preview in turn.get_by_role("button", name="Preview").all():
        preview.click()
    first, second = (turn.frame_locator("iframe").nth(n) for n in (0, 1))
    expect(first.locator(".component").first).to_have_attribute("data-name", "card: Trip")
    expect(first.locator("p")).to_have_text("Hi ·")
    assert first.locator("p").evaluate("(n) => getComputedStyle(n).fontSize") == "15px"
    expect(second.get_by_role("button")).to_have_text("Go <now>")


def test_the_page_needs_nothing_inline_and_nothing_from_elsewhere() -> None:
    index = (FOLDER / "index.html").read_text()
    assert " style=" not in index and "<style" not in index and " on" + "click=" not in index
    for path in FOLDER.iterdir():
        text = path.read_text()
        sources = (
            "innerHTML =",
            "insertAdjacentHTML",
            "outerHTML",
            "document.write",
            "eval(",
            "new Function",
        )
        assert not [word for word in sources if word in text], path.name
        assert path.suffix == ".svg" or "https://" not in text.replace("https?://", ""), path.name


def test_a_wheel_ships_the_page(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    root = FOLDER.parents[2]
    wheel = next(WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"]))
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"macaron/serve/page/{path.name}" for path in FOLDER.iterdir()} <= names
