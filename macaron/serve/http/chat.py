"""Chat completions in: the whole conversation comes with each request, and nothing is gone on from.

System and developer messages become the client's instructions, in their order.
"""

from macaron.harness.wishes import Wishes
from macaron.messages import Message, ToolCall
from macaron.serve.http.asked import (
    check_count,
    check_model,
    check_order,
    check_tools,
    end_user,
    max_tokens,
)
from macaron.serve.http.chat_schema import (
    AssistantMessage,
    ChatRequest,
    Content,
    NamedChoice,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from macaron.serve.http.errors import ApiError
from macaron.serve.turns import ClientTool, TurnRequest
from macaron.serving import ServeConfig


def chat_turn(body: ChatRequest, key: str, config: ServeConfig) -> TurnRequest:
    """The turn that a request wants.

    Raises:
        ApiError: it contradicts itself or the server's limits.
    """
    check_model(body.model, config)
    check_count(len(body.messages), config.limits.messages, "messages", "messages")
    check_count(body.n or 1, config.limits.n, "n", "answers")
    if body.stream_options and not body.stream:
        raise ApiError(400, "stream_options needs stream.", param="stream_options")
    messages = [_message(m) for m in body.messages if not isinstance(m, SystemMessage)]
    check_order(messages, "messages", whole=True)
    tools, choice = _tools(body), _choice(body)
    check_tools(tools, choice, config.limits)
    return TurnRequest(
        kind="chat",
        key=key,
        messages=messages,
        instructions=_instructions(body),
        tools=tools,
        tool_choice=choice,
        wishes=_wishes(body, config),
        n=body.n or 1,
        user=end_user(body.user, body.safety_identifier),
        store=bool(body.store),
        metadata=body.metadata or {},
    )


def _wishes(body: ChatRequest, config: ServeConfig) -> Wishes:
    spellings = {
        "max_completion_tokens": body.max_completion_tokens,
        "max_tokens": body.max_tokens,
    }
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    return Wishes(
        temperature=body.temperature,
        top_p=body.top_p,
        max_tokens=max_tokens(spellings, config.limits),
        stop=stop,
        seed=body.seed,
    )


def _message(message: UserMessage | AssistantMessage | ToolMessage) -> Message:
    if isinstance(message, UserMessage):
        return {"role": "user", "content": text_of(message.content)}
    if isinstance(message, ToolMessage):
        content = text_of(message.content)
        return {"role": "tool", "content": content, "tool_call_id": message.tool_call_id}
    said: Message = {"role": "assistant", "content": text_of(message.content)}
    if message.tool_calls:
        said["tool_calls"] = [
            ToolCall(
                id=call.id,
                type="function",
                function={"name": call.function.name, "arguments": call.function.arguments},
            )
            for call in message.tool_calls
        ]
    return said


def text_of(content: Content | None) -> str:
    """A message's text, whose parts stand one after the other."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)


def _instructions(body: ChatRequest) -> str:
    system = (m for m in body.messages if isinstance(m, SystemMessage))
    return "\n\n".join(text for m in system if (text := text_of(m.content)))


def _tools(body: ChatRequest) -> list[ClientTool]:
    functions = (tool.function for tool in body.tools or ())
    return [ClientTool(f.name, f.description or "", f.parameters) for f in functions]


def _choice(body: ChatRequest) -> str:
    if isinstance(body.tool_choice, NamedChoice):
        return body.tool_choice.function.name
    return body.tool_choice or "auto"
