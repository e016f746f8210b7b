"""A conversation's messages, in the OpenAI chat form that every room passes on."""

from typing import Literal, NotRequired, TypedDict

Role = Literal["system", "user", "assistant", "tool"]

SPECIALISTS = ("L0", "L1", "L2", "L3")
"""Chat (also the router), Agent, Coding, GenUI."""

SPECIALIST_NAMES = {"L0": "chat", "L1": "agent", "L2": "coding", "L3": "genui"}


class FunctionCall(TypedDict):
    """The name of a tool and its arguments as JSON text."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """One tool call inside an assistant message."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class Message(TypedDict):
    """One message; `content` may be empty when there are tool calls."""

    role: Role
    content: str
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]
