"""The `response` object: of a turn that runs, and of one from the timeline."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from macaron.experience.times import parse_time
from macaron.serve.http.errors import ApiError
from macaron.serve.http.finish import incomplete_reason
from macaron.serve.http.response_items import output
from macaron.serve.http.responses_schema import NamedTool, ResponseRequest
from macaron.serve.http.usage import response_usage
from macaron.serve.records import TurnRecord
from macaron.serve.turns import TurnRequest


@dataclass(frozen=True)
class Echo:
    """What a response repeats of its request; what is not kept is OpenAI's default."""

    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    previous_response_id: str | None = None
    store: bool = True
    temperature: float | None = None
    tool_choice: Any = "auto"
    tools: list[dict[str, Any]] = field(default_factory=list)
    top_p: float | None = None
    user: str | None = None


def echo_of(body: ResponseRequest, turn: TurnRequest) -> Echo:
    """Of a request that has just come."""
    choice = body.tool_choice
    return Echo(
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        metadata=turn.metadata,
        previous_response_id=turn.previous,
        store=turn.store,
        temperature=body.temperature,
        tool_choice=choice.model_dump() if isinstance(choice, NamedTool) else choice or "auto",
        tools=[_tool(t.name, t.description, t.parameters) for t in turn.tools],
        top_p=body.top_p,
        user=body.user,
    )


def response(
    id: str, created: float, model: str, echo: Echo, record: TurnRecord | None = None
) -> dict[str, Any]:
    """The object; without a record the turn still runs."""
    reason = record and incomplete_reason(record)
    status = "in_progress" if record is None else "incomplete" if reason else "completed"
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": model,
        "output": output(record, status) if record else [],
        "parallel_tool_calls": True,
        "service_tier": "default",
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
        "usage": response_usage(record) if record else None,
        **vars(echo),
    }


def failed(running: Mapping[str, Any], error: ApiError) -> dict[str, Any]:
    """The object of a turn that failed."""
    # OpenAI's own list of codes; ours is in the error event that follows.
    code = "rate_limit_exceeded" if error.status == 429 else "server_error"
    code = "invalid_prompt" if error.status == 400 else code
    return {**running, "status": "failed", "error": {"code": code, "message": error.message}}


def stored(record: TurnRecord, model: str) -> dict[str, Any]:
    """The object of a turn that the timeline keeps."""
    echo = Echo(
        instructions=record.instructions or None,
        metadata=record.metadata,
        previous_response_id=record.previous,
        tools=[_tool_of(tool) for tool in record.tools],
    )
    created = int(parse_time(record.created_at).timestamp())
    return response(record.id, created, model, echo, record)


def _tool(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": description or None,
        "parameters": dict(parameters),
        "strict": True,
    }


def _tool_of(tool: Mapping[str, Any]) -> dict[str, Any]:
    """From the form of chat completions, which the timeline keeps."""
    function = tool.get("function", tool)
    return _tool(function["name"], function.get("description", ""), function.get("parameters", {}))
