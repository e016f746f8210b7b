"""From sessions to records, from records to sessions and to experience: three plain mappings."""

from collections.abc import Sequence

from macaron.experience.schema import Trajectory
from macaron.harness.past import Past, as_a_user_saw
from macaron.messages import Message
from macaron.serve.records import TurnRecord


def past_of(record: TurnRecord) -> Past:
    """A kept turn as a session goes on from it."""
    asked = next((m for m in reversed(record.said) if m.get("tool_calls")), None)
    calls = tuple(asked["tool_calls"]) if asked is not None and record.open_calls else ()
    ids = {call["id"] for call in calls}
    results = tuple(m for m in record.said if m.get("tool_call_id") in ids)
    return Past(
        specialist=record.specialist,
        given=tuple(record.given),
        heard=tuple(record.heard),
        answer=record.answer,
        tail=tuple(record.tail_ids),
        calls=calls,
        results=results,
        skills=frozenset(record.skills),
        acted=any(m["role"] == "tool" for m in record.said),
        summary=record.summary,
    )


def trajectory_of(record: TurnRecord, before: Sequence[Past]) -> Trajectory:
    """A kept turn as experience.

    Args:
        record: the turn.
        before: the turns before it, the first one first.
    """
    told = as_a_user_saw(before)
    system: list[Message] = (
        [{"role": "system", "content": record.instructions}] if record.instructions else []
    )
    return Trajectory(
        id=record.id,
        session=record.session,
        source="served",
        created_at=record.created_at,
        specialist=record.specialist,
        messages=[*system, *told, *record.given, *record.said],
        pair=record.pair,
        hcp=record.hcp,
        adapter=record.adapter,
        seed=record.seed,
        token_ids=record.token_ids,
        loss_mask=record.loss_mask,
        logprobs=record.logprobs,
        stop_reason=record.stop_reason,
        timings_ms={name: float(value) for name, value in record.timings_ms.items()},
    )
