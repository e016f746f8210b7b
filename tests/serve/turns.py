"""Turns to keep: plain ones, and any at all for property tests."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from macaron.harness.stops import STOPS
from macaron.serve.records import TurnRecord

PLAIN = TurnRecord(
    id="resp_1",
    previous=None,
    session="resp_1",
    number=0,
    created_at="2026-01-01T00:00:00+00:00",
    key="key-a",
    user=None,
    stored=True,
    pair="p" * 64,
    hcp="h" * 64,
    specialist="L1",
    adapter="a" * 64,
    route={"why": "routed", "confidence": 0.9},
    seed=1,
    instructions="",
    tools=(),
    given=({"role": "user", "content": "hello"},),
    heard=({"role": "user", "content": "hello"},),
    said=({"role": "assistant", "content": "hi"},),
    answer="hi",
    open_calls=(),
    stop_reason="answer",
    skills=(),
    sampled=True,
    tail_ids=(8, 9),
    token_ids=(5, 6, 7, 8, 9),
    loss_mask=(False, False, False, True, True),
    logprobs=(0.0, 0.0, 0.0, -0.25, -1.5),
    usage={"input_tokens": 3, "output_tokens": 2},
    timings_ms={"answer": 12.5},
)

# Lone surrogates too: a client's JSON can carry them.
_text = st.text(st.characters(exclude_categories=()), max_size=12)
_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]), "content": _text},
    optional={"tool_call_id": _text},
)
_call = st.fixed_dictionaries(
    {
        "id": _text,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": _text, "arguments": _text}),
    }
)
_json = st.dictionaries(_text, st.none() | st.booleans() | st.integers() | _text, max_size=3)
_id = st.integers(0, 2**31 - 1)


def _tuples(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(elements, max_size=3).map(tuple)


contents: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "created_at": st.integers(1, 28).map(
            lambda day: f"2026-02-{day:02d}T12:00:00.000001+00:00"
        ),
        "user": st.sampled_from([None, "u1", "u2"]),
        "stored": st.sampled_from([True, True, True, False]),
        "adapter": st.none() | _text,
        "route": _json,
        "seed": st.integers(0, 2**63 - 1),
        "instructions": _text,
        "tools": _tuples(_json),
        "given": _tuples(_message),
        "heard": _tuples(_message),
        "said": _tuples(_message),
        "answer": _text,
        "open_calls": _tuples(_call),
        "stop_reason": st.sampled_from(STOPS),
        "skills": _tuples(_text),
        "sampled": st.booleans(),
        "tail_ids": _tuples(_id),
        "token_ids": _tuples(_id),
        "loss_mask": _tuples(st.booleans()),
        "logprobs": _tuples(st.floats(allow_nan=False)),
        "usage": st.dictionaries(_text, st.integers(0, 2**53), max_size=2),
        "timings_ms": st.dictionaries(_text, st.floats(0, 1e6), max_size=2),
        "summary": st.none() | _text,
        "metadata": st.dictionaries(_text, _text, max_size=2),
    }
)
"""All of a turn that does not say where it belongs."""


def first(id: str, **changes: Any) -> TurnRecord:
    """A session's first turn."""
    return replace(PLAIN, id=id, session=id, **changes)


def after(turn: TurnRecord, id: str, **changes: Any) -> TurnRecord:
    """A turn that follows one."""
    return replace(
        turn, id=id, previous=turn.id, number=turn.number + 1, state="offered", **changes
    )
