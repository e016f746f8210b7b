"""What the endpoints answer, for the OpenAPI document; the forms build the bodies themselves."""

from typing import Any, Literal

from pydantic import BaseModel


class ErrorInside(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class Error(BaseModel):
    """OpenAI's form of every error."""

    error: ErrorInside


class Health(BaseModel):
    """How the server is; more fields say what it serves."""

    status: str


class Model(BaseModel):
    """The one model that clients see."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "macaron"


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[Model]


class AssistantAnswer(BaseModel):
    """What was answered."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: list[dict[str, Any]] | None = None


class ChatChoice(BaseModel):
    """One of the answers."""

    index: int
    message: AssistantAnswer
    logprobs: None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]


class MacaronUsage(BaseModel):
    """What a turn cost beside prompt and answer, tokens."""

    route_tokens: int
    summary_tokens: int


class ChatUsage(BaseModel):
    """What a completion cost, tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int]
    macaron: MacaronUsage


class ChatCompletion(BaseModel):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    system_fingerprint: str
    """The pair."""


class ResponseUsage(BaseModel):
    """What a response cost, tokens."""

    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int
    macaron: MacaronUsage


class ResponseObject(BaseModel):
    """A response."""

    id: str
    object: Literal["response"]
    created_at: float
    status: Literal["completed", "incomplete"]
    model: str
    output: list[dict[str, Any]]
    incomplete_details: dict[str, str] | None
    previous_response_id: str | None
    metadata: dict[str, str]
    usage: ResponseUsage


class Deleted(BaseModel):
    """A response is forgotten."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


class Kept(BaseModel):
    """Feedback is on the disk."""

    id: str
    """Of the turn."""
    object: Literal["feedback"] = "feedback"
