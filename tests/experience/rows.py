"""Rows that the tests of this room start from."""

from dataclasses import replace
from typing import Any

from macaron.experience.schema import Trajectory
from macaron.messages import Message

HCP = "a" * 64
PAIR = "b" * 16


def chat(question: str = "How many?", answer: str = "three") -> tuple[Message, ...]:
    """One turn."""
    return ({"role": "user", "content": question}, {"role": "assistant", "content": answer})


def turn(key: str = "t1", **changes: Any) -> Trajectory:
    """A served turn with tokens; good in every respect."""
    row = Trajectory(
        id=key,
        session="s1",
        source="served",
        created_at="2026-11-29T10:00:00+00:00",
        specialist="L1",
        messages=chat(),
        pair=PAIR,
        hcp=HCP,
        adapter="c" * 64,
        token_ids=(5, 6, 7, 8),
        loss_mask=(False, False, True, True),
        logprobs=(0.0, 0.0, -0.5, -0.25),
        stop_reason="stop",
        timings_ms={"answer": 12.5},
    )
    return replace(row, **changes)


def rollout(key: str = "r1", **changes: Any) -> Trajectory:
    """A rollout whose answer was verified."""
    fields = {
        "source": "rollout",
        "environment": "agent",
        "kind": "two-filters",
        "reward": 1.0,
        "reward_valid": True,
        "reward_components": {"correct": 1.0},
    }
    return turn(key, **{**fields, **changes})
