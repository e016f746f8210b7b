"""Experience: trajectories, one row a turn or rollout, in one Arrow schema."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa

from macaron.experience.times import parse_time
from macaron.messages import Message

Source = Literal["served", "rollout", "import"]

_TOOL_CALL = pa.struct([("id", pa.string()), ("name", pa.string()), ("arguments", pa.string())])
_MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.list_(_TOOL_CALL)),
        ("tool_call_id", pa.string()),
    ]
)
_TIME = pa.timestamp("us", tz="UTC")
_FEEDBACK = pa.struct(
    [
        ("rating", pa.int8()),
        ("correction", pa.string()),
        ("outcome", pa.string()),
        ("at", _TIME),
    ]
)

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("session", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("created_at", _TIME, nullable=False),
        pa.field("pair", pa.string()),
        pa.field("hcp", pa.string()),
        pa.field("specialist", pa.string(), nullable=False),
        pa.field("adapter", pa.string()),
        pa.field("environment", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("task", pa.string()),
        pa.field("seed", pa.int64()),
        pa.field("messages", pa.list_(_MESSAGE), nullable=False),
        pa.field("token_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("loss_mask", pa.list_(pa.bool_()), nullable=False),
        pa.field("logprobs", pa.list_(pa.float32()), nullable=False),
        pa.field("reward", pa.float32()),
        pa.field("reward_valid", pa.bool_(), nullable=False),
        pa.field("reward_components", pa.map_(pa.string(), pa.float32())),
        pa.field("feedback", _FEEDBACK),
        pa.field("stop_reason", pa.string()),
        pa.field("timings_ms", pa.map_(pa.string(), pa.float32())),
    ],
    metadata={"schema_version": "1"},
)


@dataclass(frozen=True)
class Feedback:
    """What a user said of a turn."""

    rating: int | None = None
    """-1, 0 or +1."""
    correction: str | None = None
    """The answer that the user wanted instead."""
    outcome: str | None = None
    """"success" or "failure", where the world told."""
    at: str | None = None
    """When it reached us, ISO 8601, UTC; the latest feedback of a turn is the one that counts."""

    @property
    def given(self) -> bool:
        """Whether it says anything."""
        return (self.rating, self.correction, self.outcome) != (None, None, None)

    def updated(self, later: "Feedback") -> "Feedback":
        """This feedback, overridden by what a later one says; doing so twice is doing it once.

        What changes gets a later time, whatever the clock did, because the latest counts.
        """
        said = {
            name: old if (new := getattr(later, name)) is None else new
            for name, old in vars(self).items()
            if name != "at"
        }
        moments = [parse_time(at) for at in (self.at, later.at) if at]
        if self.at and said != {name: getattr(self, name) for name in said}:
            moments.append(parse_time(self.at) + timedelta(microseconds=1))
        return Feedback(**said, at=max(moments).isoformat() if moments else None)


@dataclass(frozen=True)
class Trajectory:
    """One row. Sequences over tokens (`token_ids`, `loss_mask`, `logprobs`) have one length."""

    id: str
    session: str
    source: Source
    created_at: str
    """ISO 8601, UTC."""
    specialist: str
    messages: Sequence[Message]
    """The whole conversation; the last message is the assistant's answer."""
    pair: str | None = None
    hcp: str | None = None
    adapter: str | None = None
    environment: str | None = None
    kind: str | None = None
    task: str | None = None
    """The task as JSON, where the answer can be verified; else None."""
    seed: int | None = None
    token_ids: Sequence[int] = ()
    """Prompt and response; empty where the row came as text only."""
    loss_mask: Sequence[bool] = ()
    """True on the tokens that the policy sampled."""
    logprobs: Sequence[float] = ()
    """log p under the sampling policy; 0 on prompt tokens."""
    reward: float | None = None
    reward_valid: bool = False
    reward_components: dict[str, float] = field(default_factory=dict)
    feedback: Feedback = field(default_factory=Feedback)
    stop_reason: str | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Trajectory":
        """The row that `to_json` wrote, its sequences as tuples."""
        sequences = {
            name: tuple(value[name]) for name in ("messages", "token_ids", "loss_mask", "logprobs")
        }
        return cls(**{**value, **sequences, "feedback": Feedback(**value["feedback"])})
