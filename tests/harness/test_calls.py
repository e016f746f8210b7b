"""Tool calls in text: what is read back, and that nothing a model writes is a fault of ours."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macaron.harness.calls import CLOSE, OPEN, parse_calls, to_openai, to_text, without_thought
from macaron.harness.functions import Functions
from macaron.harness.hooks import Hooks
from macaron.harness.tools import ToolBox, parse_json
from macaron.harness.use import TurnTools
from tests.harness.play import call, environment

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
PROSE = st.text(max_size=40).filter(lambda text: "<" not in text)
FRAGMENTS = st.sampled_from(
    [
        OPEN, CLOSE, "<tool_call", "</tool_call", "{", "}", '"name"', ":", '"add"', ",", "[", "]",
        '"arguments"', "{}", '{"a": 1, "b": 2}', "NaN", "\\", '"', "\n", "null", "<think>",
        "</think>", "1" * 400, "1e999", '"\\ud800"', "\ud7ff", "\x00",
        call("add", '{"a": 1, "b": 2}'),
    ]
)  # fmt: skip


def answers(text: str) -> list[str]:
    """What a model reads of its calls."""
    surface = Functions(result_chars=2000, has_tools=True)
    tools = TurnTools(ToolBox(environment()), Hooks((), "L1"))
    return surface.act(surface.read(text), tools)


def new_id(number: int) -> str:
    return f"id-{number}"


def test_several_calls_and_the_text_around_them() -> None:
    text = f"I add. {call('add', '{}')}\n{call('find', json.dumps({'id': CLOSE + OPEN}))} Then?"
    parsed = parse_calls(text)
    assert [c.name for c in parsed.calls] == ["add", "find"]
    assert json.loads(parsed.calls[1].arguments) == {"id": CLOSE + OPEN}
    assert parsed.content.split() == ["I", "add.", "Then?"]
    assert not any(c.error for c in parsed.calls)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{OPEN}{{bad}}{CLOSE}", "not JSON"),
        (f'{OPEN}{{"name": "add"', "not closed"),
        (f'{OPEN}{{"name": "add", "arguments": {{"a": 1, "b": 2}}}}', "not closed"),
        (f'{OPEN}{{"arguments": {{}}}}{CLOSE}', 'no "name"'),
        (f'{OPEN}{{"name": 7}}{CLOSE}', 'no "name"'),
        (f'{OPEN}["add"]{CLOSE}', "JSON object"),
        (f'{OPEN}{{"name": "add"}} now{CLOSE}', "not JSON"),
        (f'{OPEN}{{"name": "add", "parameters": {{}}}}{CLOSE}', "parameters"),
        (f"{OPEN}{call('add', '{}')}{CLOSE}", "inside another"),
        (f'{{"name": "add"}}{CLOSE}', "before it"),
        (f'{OPEN}{{"name": "add", "arguments": {{"a": NaN}}}}{CLOSE}', "NaN"),
        (call("sub", "{}"), "no tool is named 'sub'; the tools are: add, find"),
        (call("add", '{"a": 1}'), "'b' is a required property"),
        (call("add", '{"a": "1", "b": 2}'), "not of type 'integer'"),
        (call("add", '{"a": 1, "b": 2, "c": 3}'), "'c' was unexpected"),
        (call("add", "[1, 2]"), "must be a JSON object"),
        (call("add", '"{1}"'), "not JSON"),
        (call("find", '{"id": "y"}'), "there is no y"),
        (call("find", r'{"id": "\ud800"}'), "there is no ?"),
        (call(r"\udfff", "{}"), "no tool is named '?'"),
        (call("add", '{"a": 1e999, "b": 2}'), "1e999 is too large"),
    ],
)
def test_a_wrong_call_is_answered_with_what_is_wrong(text: str, reason: str) -> None:
    (answer,) = answers(text)
    assert answer.startswith("Error: ") and reason in answer


def test_a_wrong_call_leaves_the_others_alone() -> None:
    good = call("add", '{"a": 2, "b": 3}')
    assert answers(f"{OPEN}{{bad}}{CLOSE}{good}{call('no', '{}')}{good}")[1::2] == ["5", "5"]


def test_arguments_may_be_json_in_a_text() -> None:
    text = json.dumps({"name": "add", "arguments": '{"a": 2, "b": 3}'})
    assert answers(f"{OPEN}{text}{CLOSE}") == ["5"]


@given(st.lists(FRAGMENTS | st.text(max_size=8), max_size=24).map("".join))
def test_whatever_is_written_every_call_gets_one_answer(text: str) -> None:
    parsed = parse_calls(text)
    tags = text.count(OPEN) + text.count(CLOSE)
    assert bool(parsed.calls) == bool(tags) and len(parsed.calls) <= tags
    results = answers(text)
    assert len(results) == len(parsed.calls)
    assert all(result.encode() for result in results)
    json.dumps(to_openai(parsed.calls, new_id), ensure_ascii=False).encode()


@given(st.binary(max_size=60))
def test_broken_text_is_read_too(data: bytes) -> None:
    answers(OPEN + data.decode(errors="replace") + CLOSE)


def test_a_deep_nest_is_read_too() -> None:
    for deep in ("[" * 100_000, '{"a":' * 50_000, OPEN * 2000, (OPEN + CLOSE) * 500):
        assert all("Error: " in answer for answer in answers(f"{OPEN}{deep}{CLOSE}") if answer)


@given(PROSE, st.lists(st.tuples(NAMES, st.dictionaries(st.text(), JSON, max_size=4)), max_size=4))
def test_openais_form_is_read_back_from_text(
    prose: str, made: list[tuple[str, dict[str, Any]]]
) -> None:
    calls: list[Any] = [
        {
            "id": new_id(n),
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for n, (name, arguments) in enumerate(made)
    ]
    parsed = parse_calls(to_text(prose, calls))
    assert parsed.content == (prose.strip() if calls else prose)
    back = to_openai(parsed.calls, new_id)
    assert [c["id"] for c in back] == [c["id"] for c in calls]
    for one, other in zip(back, calls, strict=True):
        assert one["function"]["name"] == other["function"]["name"]
        left, right = (parse_json(c["function"]["arguments"]) for c in (one, other))
        assert left == right


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes.", "Yes."),
        ("<think>\nHm.\n</think>\n\nYes.", "Yes."),
        ("Hm.\n</think>\nYes.", "Yes."),
        (f"<think>{call('add', '{}')}", ""),
        (f"<think>{call('add', '{}')}</think>No.", "No."),
    ],
)
def test_reasoning_is_no_answer_and_makes_no_calls(text: str, said: str) -> None:
    assert without_thought(text) == said


@pytest.mark.parametrize("make", [lambda n: "x" * n, lambda n: "é" * n])
def test_results_share_the_rounds_budget(make: Callable[[int], str]) -> None:
    from macaron.harness.cut import share

    short, long, longer = share([make(10), make(900), make(5000)], 1000)
    assert short == make(10)
    assert long.startswith(make(495)) and "[cut: 495 of 900 characters shown]" in long
    assert "[cut: 495 of 5000 characters shown]" in longer
    assert share([make(400), make(600)], 1000) == [make(400), make(600)]
    assert share([], 10) == []
