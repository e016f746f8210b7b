"""A turn record as a database row and back: columns to search by, and the rest as canonical JSON.

What comes back equals what went in, whatever text or number it held.
"""

import base64
import json
import sys
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import RowMapping

from macaron.experience.times import parse_time
from macaron.files import canonical_json
from macaron.serve.records import TurnRecord

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

IN_COLUMNS = ("id", "previous", "session", "number", "key", "user", "state", "stored")

SEQUENCES = ("tools", "given", "heard", "said", "open_calls", "skills")

# Numbers by the thousand; base64 also holds the NaN that JSON has no name for.
PACKED = {"tail_ids": "i", "token_ids": "i", "loss_mask": "b", "logprobs": "d"}


def to_row(turn: TurnRecord, life: int) -> dict[str, Any]:
    """The row of a new turn.

    Args:
        life: number of the server's life that offers it.
    """
    # Not asdict(): it would copy every token.
    value = dict(vars(turn))
    row = {name: value.pop(name) for name in IN_COLUMNS}
    for name, code in PACKED.items():
        value[name] = pack_numbers(code, value[name])
    summary = value.pop("summary")
    return {
        **row,
        "created": microseconds(turn.created_at),
        "life": life,
        "summary": None if summary is None else to_bytes(summary),
        "body": to_bytes(canonical_json(value)),
    }


def from_row(row: RowMapping) -> TurnRecord:
    """The turn of a row, its sequences as tuples."""
    value = json.loads(to_text(row["body"]))
    value.update({name: tuple(value[name]) for name in SEQUENCES})
    value.update({name: unpack_numbers(code, value[name]) for name, code in PACKED.items()})
    value["loss_mask"] = tuple(map(bool, value["loss_mask"]))
    value.update({name: row[name] for name in IN_COLUMNS})
    value["summary"] = None if row["summary"] is None else to_text(row["summary"])
    if row["summary_tokens"] is not None:
        value["usage"]["summary_tokens"] = row["summary_tokens"]
    return TurnRecord(**value)


def microseconds(moment: str) -> int:
    """An ISO 8601 time as microseconds since 1970; two spellings of a moment are one number."""
    return (parse_time(moment) - EPOCH) // timedelta(microseconds=1)


def to_bytes(text: str) -> bytes:
    """UTF-8, lone surrogates included: JSON can carry them, and databases refuse them in text."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """What `to_bytes` was given."""
    return bytes(data).decode("utf-8", "surrogatepass")


def pack_numbers(code: str, values: Sequence[float]) -> str:
    """Numbers as base64 of their little-endian bytes."""
    return base64.b64encode(_little(array(code, values)).tobytes()).decode()


def unpack_numbers(code: str, packed: str) -> tuple[Any, ...]:
    """What `pack_numbers` was given."""
    return tuple(_little(array(code, base64.b64decode(packed))))


def _little(numbers: "array[Any]") -> "array[Any]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
