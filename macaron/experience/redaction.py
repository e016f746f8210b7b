"""Redaction: secrets and personal data become typed placeholders before anything is stored.

Redacting twice is redacting once: a placeholder is never taken for sensitive text.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from macaron.experience.patterns import PATTERNS, Pattern
from macaron.experience.schema import Feedback, Trajectory
from macaron.files import canonical_json
from macaron.messages import Message, ToolCall

UNTOUCHED = frozenset({"rollout"})
"""Sources whose text we made ourselves."""


@dataclass(frozen=True)
class Redactions:
    """Rows after redaction, and what was found in them."""

    rows: tuple[Trajectory, ...]
    found: Mapping[str, int] = field(default_factory=dict)
    """Pattern name -> placeholders written."""
    changed: int = 0
    """Rows whose text was changed."""
    untokened: int = 0
    """Of these, rows that lost their token ids and log-probabilities, which no longer match."""


def redact_text(text: str) -> tuple[str, Counter[str]]:
    """The text with placeholders such as `[EMAIL]`, and how many of each kind."""
    found: Counter[str] = Counter()
    before = None
    # A placeholder is an edge that was not there before, beside which another pattern may match.
    while text != before:
        before = text
        for pattern in PATTERNS:
            if pattern.needs in text:
                text = _apply(pattern, text, found)
    return text, found


def redact(rows: Sequence[Trajectory]) -> Redactions:
    """The rows in their order, redacted where they come from users."""
    found: Counter[str] = Counter()
    done, changed, untokened = [], 0, 0
    for row in rows:
        clean = row if row.source in UNTOUCHED else _redact_row(row, found)
        changed += clean is not row
        untokened += len(row.token_ids) > len(clean.token_ids)
        done.append(clean)
    return Redactions(tuple(done), dict(sorted(found.items())), changed, untokened)


def redact_feedback(feedback: Feedback) -> tuple[Feedback, Counter[str]]:
    """The feedback, its words redacted."""
    found: Counter[str] = Counter()
    return _redact_feedback(feedback, found), found


def _apply(pattern: Pattern, text: str, found: Counter[str]) -> str:
    pieces: list[str] = []
    end = 0
    group = "value" if "value" in pattern.regex.groupindex else 0
    for match in pattern.regex.finditer(text):
        if pattern.check(match[group]):
            pieces += text[end : match.start(group)], f"[{pattern.name}]"
            end = match.end(group)
            found[pattern.name] += 1
    return text if not pieces else "".join((*pieces, text[end:]))


def _redact_row(row: Trajectory, found: Counter[str]) -> Trajectory:
    messages = tuple(_message(message, found) for message in row.messages)
    clean = replace(
        row,
        messages=messages,
        session=_text(row.session, found),
        environment=_text(row.environment, found),
        kind=_text(row.kind, found),
        task=_json_text(row.task, found),
        stop_reason=_text(row.stop_reason, found),
        feedback=_redact_feedback(row.feedback, found),
    )
    if clean == replace(row, messages=tuple(row.messages)):
        return row
    if messages == tuple(row.messages):
        return clean
    return replace(clean, token_ids=(), loss_mask=(), logprobs=())


def _redact_feedback(feedback: Feedback, found: Counter[str]) -> Feedback:
    return replace(
        feedback,
        correction=_text(feedback.correction, found),
        outcome=_text(feedback.outcome, found),
    )


def _message(message: Message, found: Counter[str]) -> Message:
    clean: Message = {**message, "content": _text(message["content"], found)}
    if "tool_calls" in message:
        clean["tool_calls"] = [_tool_call(call, found) for call in message["tool_calls"]]
    return clean


def _tool_call(call: ToolCall, found: Counter[str]) -> ToolCall:
    function = call["function"]
    arguments = _json_text(function["arguments"], found)
    return {**call, "function": {"name": _text(function["name"], found), "arguments": arguments}}


def _text(text: Any, found: Counter[str]) -> Any:
    if not isinstance(text, str):
        return text
    clean, counts = redact_text(text)
    found.update(counts)
    return clean


def _json_text(text: Any, found: Counter[str]) -> Any:
    """Redacts inside JSON text, whose escapes would hide a secret's edges from the patterns."""
    try:
        value = json.loads(text)
        clean = _json_value(value, counts := Counter[str]())
        clean_text = canonical_json(clean) if counts else text
    except (TypeError, ValueError, RecursionError):
        return _text(text, found)
    found.update(counts)
    return clean_text


def _json_value(value: Any, found: Counter[str]) -> Any:
    if isinstance(value, str):
        return _text(value, found)
    if isinstance(value, dict):
        return {_text(k, found): _json_value(v, found) for k, v in value.items()}
    if isinstance(value, list):
        return [_json_value(v, found) for v in value]
    if isinstance(value, int) and not isinstance(value, bool):
        clean = _text(str(value), found)
        return value if clean == str(value) else clean
    return value
