"""Any rows at all, for property tests."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from macaron.experience.schema import Feedback, Trajectory
from macaron.messages import SPECIALISTS

_text = st.text(max_size=12)
_maybe = st.none() | _text
_moment = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)).map(
    lambda moment: moment.isoformat()
)
_number = st.floats(width=32, allow_nan=False)
_numbers = st.dictionaries(_text, _number, max_size=2)
_call = st.fixed_dictionaries(
    {
        "id": _text,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": _text, "arguments": _text}),
    }
)
_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": _text},
    optional={"tool_calls": st.lists(_call, max_size=2), "tool_call_id": _text},
)
_feedback = st.just(Feedback()) | st.builds(
    Feedback,
    rating=st.sampled_from([None, -1, 0, 1]),
    correction=_maybe,
    outcome=_maybe,
    at=st.none() | _moment,
)


def _tuples(elements: st.SearchStrategy[Any], size: int = 4) -> st.SearchStrategy[Any]:
    return st.lists(elements, max_size=size).map(tuple)


trajectories = st.builds(
    Trajectory,
    id=_text,
    session=_text,
    source=st.sampled_from(["served", "rollout", "import"]),
    created_at=_moment,
    specialist=st.sampled_from(SPECIALISTS),
    messages=_tuples(_message),
    pair=_maybe,
    hcp=_maybe,
    adapter=_maybe,
    environment=_maybe,
    kind=_maybe,
    task=_maybe,
    seed=st.none() | st.integers(-(2**63), 2**63 - 1),
    token_ids=_tuples(st.integers(0, 2**31 - 1)),
    loss_mask=_tuples(st.booleans()),
    logprobs=_tuples(_number),
    reward=st.none() | _number,
    reward_valid=st.booleans(),
    reward_components=_numbers,
    feedback=_feedback,
    stop_reason=_maybe,
    timings_ms=_numbers,
)
"""Any rows at all, good or bad, whose numbers are float32."""
