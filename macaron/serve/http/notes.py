"""What is known of a request while it runs, for its headers, its log line and the metrics.

Neither texts nor keys are ever in it.
"""

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from macaron.serve.http.usage import tokens
from macaron.serve.records import TurnRecord
from macaron.serve.turns import OpenTurn

PLACE = "macaron.notes"
"""Where a request's notes are in its ASGI scope."""


@dataclass
class Notes:
    """Of one request."""

    request_id: str = field(default_factory=lambda: f"req_{uuid.uuid4().hex}")
    method: str = ""
    route: str = "other"
    """The path's template, so that ids in paths don't multiply the metrics."""
    status: int = 0
    key: str | None = None
    """The key's id."""
    stream: bool | None = None
    turn: str | None = None
    specialist: str | None = None
    """Its name."""
    why: str | None = None
    confidence: float | None = None
    pair: str | None = None
    hcp: str | None = None
    end: str | None = None
    """`delivered`, or why the turn was withdrawn: `gone`, `timeout`, an error's code."""
    stops: list[str] = field(default_factory=list)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    first_ms: float | None = None
    """To the first piece of the answer."""
    error: str | None = None
    """An error's code."""
    began: float = field(default_factory=time.perf_counter)

    def of(self, turn: OpenTurn) -> None:
        """Takes in what the service decided."""
        self.turn, self.pair, self.hcp = turn.id, turn.pair, turn.hcp
        self.specialist, self.why = turn.route.name, turn.route.why
        self.confidence = turn.route.confidence

    def took(self, records: Sequence[TurnRecord]) -> None:
        """Takes in what the answers came to; one prompt is counted once."""
        self.stops = [record.stop_reason for record in records]
        used = tokens(records)
        self.prompt_tokens, self.completion_tokens = used.prompt, used.completion

    def ms(self) -> float:
        """Since the request began."""
        return (time.perf_counter() - self.began) * 1000

    def headers(self) -> dict[str, str]:
        """The response headers that tell of the turn."""
        confidence = None if self.confidence is None else f"{self.confidence:.4f}"
        values = {
            "x-request-id": self.request_id,
            "x-macaron-specialist": self.specialist,
            "x-macaron-route": self.why,
            "x-macaron-confidence": confidence,
            "x-macaron-pair": self.pair,
            "x-macaron-hcp": self.hcp,
            "x-macaron-turn": self.turn,
        }
        return {name: _plain(value) for name, value in values.items() if value}

    def line(self) -> str:
        """The request in one line of JSON, for the log."""
        facts = {name: value for name, value in asdict(self).items() if value not in (None, [])}
        facts["ms"] = round(self.ms(), 1)
        del facts["began"]
        return json.dumps(facts, ensure_ascii=True, separators=(",", ":"))


def notes_of(scope: Mapping[str, Any]) -> Notes:
    """The notes of a request."""
    notes: Notes = scope[PLACE]
    return notes


def _plain(value: str) -> str:
    """What a header can hold: a label of an HCP may be any text."""
    return re.sub(r"[^\x20-\x7e]", "?", value)
