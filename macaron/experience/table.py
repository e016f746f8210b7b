"""Trajectories to Arrow and back; what does not fit the schema exactly is never let through."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from macaron.errors import ExperienceError
from macaron.experience.schema import SCHEMA, Feedback, Trajectory
from macaron.experience.times import parse_time
from macaron.messages import Message

_UNFIT = (TypeError, ValueError, OverflowError, AttributeError, KeyError)


def to_table(trajectories: Sequence[Trajectory]) -> pa.Table:
    """The rows in `SCHEMA`.

    Raises:
        ExperienceError: a value does not fit its field; row and field are named.
    """
    columns = [_column(field, trajectories) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def from_table(table: pa.Table) -> list[Trajectory]:
    """The rows of a table in `SCHEMA`.

    Sequences come back as tuples and times in the one spelling of `macaron.experience.times`;
    apart from these, `from_table(to_table(rows)) == rows` where numbers are float32.

    Raises:
        ExperienceError: the table has another schema.
    """
    check_schema(table.schema, "table")
    columns = [_values(name, table[name].to_pylist()) for name in SCHEMA.names]
    return [
        Trajectory(**dict(zip(SCHEMA.names, row, strict=True)))
        for row in zip(*columns, strict=True)
    ]


def check_schema(schema: pa.Schema, where: str) -> None:
    """Compares names, order, types, nullability and version.

    Raises:
        ExperienceError: it is not `SCHEMA`; the fields that differ are named.
    """
    differences = [
        _difference(found, wanted)
        for found, wanted in zip_longest(schema, SCHEMA)
        if found is None or wanted is None or not found.equals(wanted)
    ]
    version = (schema.metadata or {}).get(b"schema_version", b"none").decode(errors="replace")
    wanted_version = SCHEMA.metadata[b"schema_version"].decode()
    if version != wanted_version:
        differences.append(f"schema version is {version}, not {wanted_version}")
    if differences:
        raise ExperienceError(
            f"not an experience table: {'; '.join(differences)}",
            where=where,
            mend="restore it with `dvc pull`, or import it again",
        )


def check_feedback(feedback: Feedback) -> None:
    """Whether the feedback fits a row.

    Raises:
        ExperienceError: it does not; the reason is named.
    """
    try:
        pa.array([_flat_feedback(feedback)], SCHEMA.field("feedback").type)
    except _UNFIT as error:
        raise ExperienceError(str(error), where="feedback") from error


def _difference(found: Any, wanted: Any) -> str:
    if found is None:
        return f"no field {wanted.name}"
    if wanted is None:
        return f"unknown field {found.name}"
    if found.name != wanted.name:
        return f"field {found.name} where {wanted.name} belongs"
    return f"{found.name} is {_spell(found)}, not {_spell(wanted)}"


def _spell(field: pa.Field) -> str:
    return f"{field.type}" if field.nullable else f"{field.type} not null"


def _column(field: pa.Field, rows: Sequence[Trajectory]) -> pa.Array:
    try:
        column = pa.array([_cell(field.name, row) for row in rows], field.type)
    except _UNFIT as error:
        raise _unfit(field, rows) from error
    if column.null_count and not field.nullable:
        raise _unfit(field, rows)
    return column


def _unfit(field: pa.Field, rows: Sequence[Trajectory]) -> ExperienceError:
    """Names the first row whose value does not fit."""
    for row in rows:
        try:
            reason = (
                "is empty"
                if pa.array([_cell(field.name, row)], field.type).null_count and not field.nullable
                else ""
            )
        except _UNFIT as error:
            reason = str(error)
        if reason:
            return ExperienceError(f"{field.name}: {reason}", where=f"row {row.id!r}")
    return ExperienceError(f"{field.name} does not fit {field.type}", where=f"{len(rows)} rows")


def _cell(name: str, row: Trajectory) -> Any:
    value = getattr(row, name)
    if name == "created_at":
        return parse_time(value)
    if name == "messages":
        return [_flat_message(message) for message in value]
    if name in ("reward_components", "timings_ms"):
        return list(value.items())
    if name == "feedback":
        return _flat_feedback(value)
    return value


def _flat_message(message: Message) -> dict[str, Any]:
    calls = message.get("tool_calls")
    return {
        "role": message["role"],
        "content": message["content"],
        "tool_calls": None if calls is None else [{"id": c["id"], **c["function"]} for c in calls],
        "tool_call_id": message.get("tool_call_id"),
    }


def _flat_feedback(feedback: Feedback) -> dict[str, Any] | None:
    if feedback == Feedback():
        return None
    return {**vars(feedback), "at": parse_time(feedback.at) if feedback.at else None}


def _values(name: str, column: list[Any]) -> list[Any]:
    if name == "created_at":
        return [value.isoformat() for value in column]
    if name == "messages":
        return [tuple(_message(message) for message in value) for value in column]
    if name in ("token_ids", "loss_mask", "logprobs"):
        return [tuple(value) for value in column]
    if name in ("reward_components", "timings_ms"):
        return [dict(value or ()) for value in column]
    if name == "feedback":
        return [_feedback(value) for value in column]
    return column


def _message(flat: Mapping[str, Any]) -> Message:
    message: Message = {"role": flat["role"], "content": flat["content"]}
    if flat["tool_calls"] is not None:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in flat["tool_calls"]
        ]
    if flat["tool_call_id"] is not None:
        message["tool_call_id"] = flat["tool_call_id"]
    return message


def _feedback(flat: Mapping[str, Any] | None) -> Feedback:
    if flat is None:
        return Feedback()
    at = flat["at"].isoformat() if flat["at"] else None
    return Feedback(**{**flat, "at": at})
