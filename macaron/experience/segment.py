"""A line of the turn log is a CRC-32 and a JSON record; a cut line is told from a whole one.

The JSON is written by us and read by us; it may hold NaN, which a bad sampler may return and
validation must see.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from macaron.experience.redaction import Redactions
from macaron.experience.schema import Feedback, Trajectory

_CRC_LENGTH = 8


@dataclass
class Segment:
    """What a segment file holds."""

    turns: dict[str, Trajectory] = field(default_factory=dict)
    """Id -> the turn, as first logged."""
    feedback: list[tuple[str, Feedback]] = field(default_factory=list)
    """(trajectory id, feedback), in the order of arrival."""
    found: dict[str, int] = field(default_factory=dict)
    """Kind of sensitive text -> times it was redacted before logging."""
    untokened: int = 0
    """Turns that lost their token ids by it."""
    bad: list[dict[str, Any]] = field(default_factory=list)
    """{line, reason, raw} of every line that could not be read."""


def turn_line(redacted: Redactions) -> bytes:
    """The line of the one turn that was redacted."""
    (row,) = redacted.rows
    found, untokened = dict(redacted.found), redacted.untokened
    return _line({"turn": row.to_json(), "redacted": found, "untokened": untokened})


def feedback_line(trajectory_id: str, feedback: Feedback, found: Mapping[str, int]) -> bytes:
    """The line of a later feedback."""
    return _line({"id": trajectory_id, "feedback": asdict(feedback), "redacted": dict(found)})


def parse_segment(data: bytes) -> Segment:
    """All that can be read; what cannot is kept in `bad`, and nothing raises."""
    segment = Segment()
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        torn = number == len(lines)
        if (reason := _read(line, segment)) is not None:
            raw = line.decode(errors="backslashreplace")
            reason = "torn: the writer died in the middle of it" if torn else reason
            segment.bad.append({"line": number, "reason": reason, "raw": raw})
    return segment


def _line(record: dict[str, Any]) -> bytes:
    data = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(data), data)


def _read(line: bytes, segment: Segment) -> str | None:
    """Adds the line's record to the segment, or says why it cannot."""
    crc, data = line[:_CRC_LENGTH], line[_CRC_LENGTH + 1 :]
    if crc != b"%08x" % zlib.crc32(data):
        return "the line's checksum does not match"
    try:
        record = json.loads(data)
        if "turn" in record:
            row = Trajectory.from_json(record["turn"])
            segment.turns.setdefault(row.id, row)
            segment.untokened += record["untokened"]
        else:
            segment.feedback.append((record["id"], Feedback(**record["feedback"])))
        for name, count in record["redacted"].items():
            segment.found[name] = segment.found.get(name, 0) + count
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return f"not a record: {type(error).__name__}: {error}"
    return None
