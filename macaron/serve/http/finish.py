"""Why an answer ended, in OpenAI's words."""

from macaron.serve.records import TurnRecord

CUT = frozenset({"length", "rounds"})
"""Stops after which there would have been more to say."""


def finish_reason(record: TurnRecord) -> str:
    """Of a chat completion's choice."""
    if record.stop_reason == "refused":
        return "content_filter"
    if record.open_calls:
        return "tool_calls"
    return "length" if record.stop_reason in CUT else "stop"


def incomplete_reason(record: TurnRecord) -> str | None:
    """Of a response; None: it is complete."""
    reasons = {"content_filter": "content_filter", "length": "max_output_tokens"}
    return reasons.get(finish_reason(record))
