"""What turns cost, in tokens, for clients and metrics.

A turn's `usage` has `prompt_tokens`, `cached_tokens`, `completion_tokens`, `route_tokens` and
`summary_tokens`; what is missing is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from macaron.serve.records import TurnRecord


@dataclass(frozen=True)
class Tokens:
    """Of one request."""

    prompt: int
    cached: int
    """Of the prompt, those that a prefix cache held."""
    completion: int
    route: int
    summary: int
    """Beside prompt and completion, as `route`."""

    @property
    def total(self) -> int:
        """As OpenAI counts: without what routing and summaries cost."""
        return self.prompt + self.completion


def tokens(records: Sequence[TurnRecord]) -> Tokens:
    """Of a request's choices: their prompt and route are shared, so that the first one's count."""
    first = records[0].usage
    return Tokens(
        prompt=int(first.get("prompt_tokens", 0)),
        cached=int(first.get("cached_tokens", 0)),
        completion=_sum(records, "completion_tokens"),
        route=int(first.get("route_tokens", 0)),
        summary=_sum(records, "summary_tokens"),
    )


def chat_usage(records: Sequence[TurnRecord]) -> dict[str, Any]:
    """In the form of chat completions."""
    used = tokens(records)
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.total,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        "macaron": _beside(used),
    }


def response_usage(record: TurnRecord) -> dict[str, Any]:
    """In the form of responses."""
    used = tokens([record])
    return {
        "input_tokens": used.prompt,
        "input_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": 0},
        "output_tokens": used.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.total,
        "macaron": _beside(used),
    }


def _beside(used: Tokens) -> Mapping[str, int]:
    return {"route_tokens": used.route, "summary_tokens": used.summary}


def _sum(records: Sequence[TurnRecord], name: str) -> int:
    return sum(int(record.usage.get(name, 0)) for record in records)
