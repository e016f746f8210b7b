"""POST /v1/chat/completions: what a request may say.

A field that OpenAI has and this server has not is listed with the values that change nothing;
any other value of it is refused.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from macaron.serve.http.body import Body
from macaron.serve.http.common_schema import (
    CallId,
    Choice,
    Count,
    FunctionName,
    Metadata,
    Off,
    On,
    Parameters,
    Seed,
    ServiceTier,
    Temperature,
    ToolName,
    TopP,
    UserName,
    Zero,
)
from macaron.serve.http.tool_schema import NO_ARGUMENTS

Stop = Annotated[str, Field(min_length=1, max_length=256)]


class TextPart(Body):
    """A part of a message."""

    type: Literal["text"]
    text: str


Content = str | list[TextPart]


class SystemMessage(Body):
    """What the operator of the client says."""

    role: Literal["system", "developer"]
    content: Content
    name: None = None


class UserMessage(Body):
    """What the user says."""

    role: Literal["user"]
    content: Content
    name: None = None


class Function(Body):
    """A call: a tool's name, and its arguments as JSON text."""

    name: ToolName
    arguments: str


class Call(Body):
    """A call that the assistant made."""

    id: CallId
    type: Literal["function"]
    function: Function


class AssistantMessage(Body):
    """What was answered before."""

    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: Annotated[list[Call], Field(min_length=1)] | None = None
    name: None = None
    refusal: None = None
    audio: None = None
    function_call: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None


class ToolMessage(Body):
    """The result of a call."""

    role: Literal["tool"]
    content: Content
    tool_call_id: CallId


Message = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


class FunctionSpec(Body):
    """A function of the client's."""

    name: ToolName
    description: str | None = None
    parameters: Parameters = NO_ARGUMENTS
    strict: bool | None = None
    """Arguments are checked against the schema in any case."""


class Tool(Body):
    """A tool of the client's."""

    type: Literal["function"]
    function: FunctionSpec


class NamedChoice(Body):
    """One tool, which has to be called."""

    type: Literal["function"]
    function: FunctionName


class StreamOptions(Body):
    """How to stream."""

    include_usage: bool | None = None
    include_obfuscation: Off | None = None


class TextFormat(Body):
    """Plain text, the only format."""

    type: Literal["text"]


class ChatRequest(Body):
    """A request for a chat completion."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Count | None = None
    seed: Seed | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    tools: list[Tool] | None = None
    tool_choice: Choice | NamedChoice | None = None
    parallel_tool_calls: On | None = None
    user: UserName | None = None
    safety_identifier: UserName | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    # What changes nothing.
    frequency_penalty: Zero | None = None
    presence_penalty: Zero | None = None
    logprobs: Off | None = None
    response_format: TextFormat | None = None
    service_tier: ServiceTier | None = None
    modalities: Annotated[list[Literal["text"]], Field(min_length=1, max_length=1)] | None = None
    # What there is not.
    audio: None = None
    function_call: None = None
    functions: None = None
    logit_bias: None = None
    moderation: None = None
    prediction: None = None
    prompt_cache_key: None = None
    prompt_cache_options: None = None
    prompt_cache_retention: None = None
    reasoning_effort: None = None
    top_logprobs: None = None
    verbosity: None = None
    web_search_options: None = None
