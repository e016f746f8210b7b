"""POST /v1/responses: what a request may say.

A field that OpenAI has and this server has not is listed with the values that change nothing;
any other value of it is refused.
"""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Discriminator, Field, Tag

from macaron.serve.http.body import Body
from macaron.serve.http.common_schema import (
    CallId,
    Choice,
    Count,
    Metadata,
    Off,
    On,
    Parameters,
    ServiceTier,
    Temperature,
    ToolName,
    TopP,
    UserName,
)

Status = Literal["in_progress", "completed", "incomplete"]


class InputText(Body):
    """A part of a message."""

    type: Literal["input_text"]
    text: str


class OutputText(Body):
    """A part of an answer, as it was given out."""

    type: Literal["output_text"]
    text: str
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: Annotated[list[Any], Field(max_length=0)] | None = None


class SaidByOthers(Body):
    """A message of the user, or of the client's operator."""

    type: Literal["message"] = "message"
    role: Literal["user", "system", "developer"]
    content: str | list[InputText]
    id: str | None = None
    status: Status | None = None


class SaidByUs(Body):
    """What was answered before, for a client that keeps the conversation itself."""

    type: Literal["message"] = "message"
    role: Literal["assistant"]
    content: str | list[OutputText]
    id: str | None = None
    status: Status | None = None
    phase: None = None


class CallItem(Body):
    """A call that the assistant made."""

    type: Literal["function_call"]
    call_id: CallId
    name: ToolName
    arguments: str
    id: str | None = None
    status: Status | None = None
    caller: None = None
    namespace: None = None
    async_: None = Field(None, validation_alias=AliasChoices("async", "async_"))
    """By either name: the client's library writes both."""


class ResultItem(Body):
    """The result of a call."""

    type: Literal["function_call_output"]
    call_id: CallId
    output: str | list[InputText]
    id: str | None = None
    status: Status | None = None
    caller: None = None
    name: None = None
    namespace: None = None


def _which(item: Any) -> str:
    """The kind of an item: a message need not say that it is one."""
    kind = item.get("type", "message") if isinstance(item, dict) else item.type
    if kind != "message":
        return str(kind)
    role = item.get("role") if isinstance(item, dict) else item.role
    return "assistant" if role == "assistant" else "message"


Item = Annotated[
    Annotated[SaidByOthers, Tag("message")]
    | Annotated[SaidByUs, Tag("assistant")]
    | Annotated[CallItem, Tag("function_call")]
    | Annotated[ResultItem, Tag("function_call_output")],
    Discriminator(_which, custom_error_type="item", custom_error_message="no such kind of item"),
]


class FunctionTool(Body):
    """A function of the client's."""

    type: Literal["function"]
    name: ToolName
    description: str | None = None
    parameters: Parameters | None = None
    strict: bool | None = None
    """Arguments are checked against the schema in any case."""
    allowed_callers: None = None
    defer_loading: Off | None = None
    output_schema: None = None


class NamedTool(Body):
    """One tool, which has to be called."""

    type: Literal["function"]
    name: ToolName


class PlainText(Body):
    """The only format."""

    type: Literal["text"]


class TextConfig(Body):
    """How text is written."""

    format: PlainText | None = None
    verbosity: None = None


class StreamConfig(Body):
    """How to stream."""

    include_obfuscation: Off | None = None


class ResponseRequest(Body):
    """A request for a response."""

    model: str
    input: Annotated[str, Field(min_length=1)] | Annotated[list[Item], Field(min_length=1)]
    previous_response_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    instructions: str | None = None
    stream: bool | None = None
    stream_options: StreamConfig | None = None
    max_output_tokens: Count | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Choice | NamedTool | None = None
    parallel_tool_calls: On | None = None
    user: UserName | None = None
    safety_identifier: UserName | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    # What changes nothing.
    background: Off | None = None
    include: Annotated[list[str], Field(max_length=0)] | None = None
    service_tier: ServiceTier | None = None
    text: TextConfig | None = None
    truncation: Literal["disabled"] | None = None
    # What there is not.
    access_programs: None = None
    background_options: None = None
    context_management: None = None
    conversation: None = None
    image: None = None
    max_tool_calls: None = None
    moderation: None = None
    prompt: None = None
    prompt_cache_key: None = None
    prompt_cache_options: None = None
    prompt_cache_retention: None = None
    reasoning: None = None
    top_logprobs: None = None
