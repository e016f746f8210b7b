"""One line of OpenAI-style chat JSONL as a trajectory, or the reason why it is none."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, get_args

from macaron.experience.schema import Feedback, Trajectory
from macaron.experience.times import parse_time
from macaron.files import canonical_json, digest_value
from macaron.messages import SPECIALIST_NAMES, SPECIALISTS, Message, Role, ToolCall

DEFAULT_SPECIALIST = "L0"
RATINGS = {"up": 1, "down": -1}
ROLES = {**{role: role for role in get_args(Role)}, "developer": "system"}
"""Accepted role -> ours."""
_LONGEST_ID = 200


class BadLineError(Exception):
    """A line that cannot be imported.

    Args:
        reason: short, the same for the same kind of fault, so that faults can be counted.
        detail: what was found.
    """

    def __init__(self, reason: str, detail: object = "") -> None:
        self.reason, self.detail = reason, f"{detail}"[:200]
        super().__init__(f"{reason}: {self.detail}" if self.detail else reason)


def parse_line(raw: bytes, imported_at: datetime) -> Trajectory:
    """The conversation in a line, with source "import".

    Its id is the one the line gives, or else a digest of all but the feedback, so that the same
    conversation has the same id whenever it is imported. The specialist is the one the line gives
    (`L0` to `L3`, or its name), or else L0. Fields are read beside `messages`, or else from
    `metadata`.

    Raises:
        BadLineError: with the reason.
    """
    line = _object(raw)
    messages = _messages(line.get("messages"))
    fields = _Fields(line)
    fields.objects("tools")
    given: dict[str, Any] = {
        "session": fields.text("session"),
        "specialist": _specialist(fields.text("specialist")),
        "pair": fields.text("pair"),
        "hcp": fields.text("hcp"),
        "environment": fields.text("environment"),
        "kind": fields.text("kind"),
        "task": fields.json_object("task"),
        "seed": fields.whole("seed"),
    }
    created_at = fields.time("created_at")
    content = {**given, "messages": messages, "created_at": created_at}
    key = fields.text("id") or f"import-{digest_value(content)[:32]}"
    if len(key) > _LONGEST_ID:
        raise BadLineError("id: too long")
    return Trajectory(
        **{**given, "session": given["session"] or key},
        id=key,
        source="import",
        created_at=created_at or imported_at.isoformat(),
        messages=tuple(messages),
        feedback=_feedback(fields, imported_at),
    )


class _Fields:
    """The optional fields of a line, each checked for its type."""

    def __init__(self, line: Mapping[str, Any]) -> None:
        metadata = line.get("metadata")
        if not isinstance(metadata, dict | None):
            raise BadLineError("metadata: not an object")
        self._values = {**(metadata or {}), **{k: v for k, v in line.items() if v is not None}}

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise BadLineError(f"{name}: not a string", value)
        return value or None

    def whole(self, name: str) -> int | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
            raise BadLineError(f"{name}: not a whole number of 64 bits", value)
        return value

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        value = self.text(name)
        if value is not None and value not in allowed:
            raise BadLineError(f"{name}: not one of {', '.join(allowed)}", value)
        return value

    def rating(self) -> int | None:
        value = self._values.get("rating")
        if isinstance(value, str):
            value = RATINGS.get(value, value)
        if value is None or (type(value) is int and value in (-1, 0, 1)):
            return value
        raise BadLineError("rating: not -1, 0, 1, up or down", value)

    def json_object(self, name: str) -> str | None:
        """An object, or its JSON text, as canonical JSON text."""
        value = self._values.get(name)
        if value is None:
            return None
        try:
            value = _loads(value) if isinstance(value, str) else value
            if isinstance(value, dict):
                return canonical_json(value)
        except (ValueError, RecursionError):
            pass
        raise BadLineError(f"{name}: not a JSON object")

    def objects(self, name: str) -> None:
        value = self._values.get(name)
        if value is not None and not (
            isinstance(value, list) and all(isinstance(v, dict) for v in value)
        ):
            raise BadLineError(f"{name}: not a list of objects")

    def time(self, name: str) -> str | None:
        """ISO 8601 (UTC where it names no zone) or seconds since 1970."""
        value = self._values.get(name)
        if value is None:
            return None
        try:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return datetime.fromtimestamp(value, UTC).isoformat()
            moment = datetime.fromisoformat(value)
            return parse_time(
                (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
            ).isoformat()
        except (TypeError, ValueError, OverflowError, OSError) as error:
            raise BadLineError(f"{name}: not a time", value) from error


def _object(raw: bytes) -> dict[str, Any]:
    if b"\0" in raw:
        raise BadLineError("NUL byte")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadLineError("not UTF-8", error.reason) from error
    try:
        value = _loads(text)
        # JSON can spell half a surrogate pair, which is no text and cannot be stored.
        canonical_json(value).encode()
    except UnicodeEncodeError as error:
        raise BadLineError("not Unicode text", error.reason) from error
    except RecursionError as error:
        raise BadLineError("nested too deeply") from error
    except ValueError as error:
        raise BadLineError("not JSON", error) from error
    if not isinstance(value, dict):
        raise BadLineError("not an object", type(value).__name__)
    return value


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _specialist(name: str | None) -> str:
    keys = {**{key: key for key in SPECIALISTS}, **{n: k for k, n in SPECIALIST_NAMES.items()}}
    if name is not None and name not in keys:
        raise BadLineError("unknown specialist", name)
    return keys[name or DEFAULT_SPECIALIST]


def _feedback(fields: _Fields, imported_at: datetime) -> Feedback:
    said = Feedback(
        rating=fields.rating(),
        correction=fields.text("correction"),
        outcome=fields.choice("outcome", ("success", "failure")),
    )
    if said.correction is not None and not said.correction.strip():
        raise BadLineError("correction: empty")
    return said.updated(Feedback(at=imported_at.isoformat())) if said.given else said


def _messages(value: Any) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise BadLineError("no messages")
    messages = [_message(message) for message in value]
    if messages[-1]["role"] != "assistant":
        raise BadLineError("the last message is not the assistant's", messages[-1]["role"])
    if all(message["role"] != "user" for message in messages):
        raise BadLineError("no message from the user")
    _check_tool_results(messages)
    return messages


def _message(value: Any) -> Message:
    if not isinstance(value, dict):
        raise BadLineError("message: not an object")
    role = value.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise BadLineError("unknown role", role)
    message: Message = {"role": ROLES[role], "content": _content(value.get("content"))}
    if (calls := value.get("tool_calls")) is not None:
        if role != "assistant" or not isinstance(calls, list):
            raise BadLineError("tool_calls: not a list of the assistant's")
        message["tool_calls"] = [_tool_call(call) for call in calls]
    if (call_id := value.get("tool_call_id")) is not None:
        if not isinstance(call_id, str):
            raise BadLineError("tool_call_id: not a string", call_id)
        message["tool_call_id"] = call_id
    needs_text = role in ("user", "assistant") and not message.get("tool_calls")
    if needs_text and not message["content"].strip():
        raise BadLineError("empty content", role)
    return message


def _content(value: Any) -> str:
    """Text, or the text of a list of text parts."""
    if value is None:
        return ""
    if isinstance(value, list):
        if not all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in value):
            raise BadLineError("content: a part is not text")
        value = "".join(part["text"] for part in value)
    if not isinstance(value, str):
        raise BadLineError("content: not a string", type(value).__name__)
    if "\0" in value:
        raise BadLineError("NUL character")
    return value


def _tool_call(value: Any) -> ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict):
        raise BadLineError("tool_calls: a call has no function")
    texts = {"id": value.get("id"), "name": function.get("name")}
    texts["arguments"] = function.get("arguments")
    for name, text in texts.items():
        if not isinstance(text, str):
            raise BadLineError(f"tool_calls: {name} is not a string", text)
    return {
        "id": texts["id"],
        "type": "function",
        "function": {"name": texts["name"], "arguments": texts["arguments"]},
    }


def _check_tool_results(messages: list[Message]) -> None:
    open_calls: set[str] = set()
    for message in messages:
        open_calls.update(call["id"] for call in message.get("tool_calls", ()))
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise BadLineError(
                    "tool message without a call before it", message.get("tool_call_id")
                )
            open_calls.discard(message["tool_call_id"])
