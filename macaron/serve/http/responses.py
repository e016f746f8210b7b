"""Responses in: what is new of a conversation, which goes on from one that the server keeps."""

from collections.abc import Iterable

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
from macaron.serve.http.errors import ApiError
from macaron.serve.http.responses_schema import (
    CallItem,
    InputText,
    Item,
    NamedTool,
    OutputText,
    ResponseRequest,
    ResultItem,
    SaidByOthers,
)
from macaron.serve.http.tool_schema import NO_ARGUMENTS
from macaron.serve.turns import ClientTool, TurnRequest
from macaron.serving import ServeConfig


def response_turn(body: ResponseRequest, key: str, config: ServeConfig) -> TurnRequest:
    """The turn that a request wants.

    Raises:
        ApiError: it contradicts itself or the server's limits.
    """
    check_model(body.model, config)
    if body.stream_options and not body.stream:
        raise ApiError(400, "stream_options needs stream.", param="stream_options")
    items = _items(body)
    check_count(len(items), config.limits.messages, "input", "items")
    messages = _messages(item for item in items if not _is_system(item))
    check_order(messages, "input", whole=body.previous_response_id is None)
    tools, choice = _tools(body), _choice(body)
    check_tools(tools, choice, config.limits)
    given = {"max_output_tokens": body.max_output_tokens}
    return TurnRequest(
        kind="response",
        key=key,
        messages=messages,
        previous=body.previous_response_id,
        instructions=_instructions(body, items),
        tools=tools,
        tool_choice=choice,
        wishes=Wishes(
            temperature=body.temperature,
            top_p=body.top_p,
            max_tokens=max_tokens(given, config.limits),
        ),
        user=end_user(body.user, body.safety_identifier),
        store=body.store is not False,
        metadata=body.metadata or {},
    )


def _items(body: ResponseRequest) -> list[Item]:
    if isinstance(body.input, str):
        return [SaidByOthers(role="user", content=body.input)]
    return body.input


def _is_system(item: Item) -> bool:
    return isinstance(item, SaidByOthers) and item.role != "user"


def _messages(items: Iterable[Item]) -> list[Message]:
    """Calls are part of the message that they were made in."""
    messages: list[Message] = []
    for item in items:
        if isinstance(item, CallItem):
            _attach(messages, item)
        elif isinstance(item, ResultItem):
            content = _text(item.output)
            messages.append({"role": "tool", "content": content, "tool_call_id": item.call_id})
        else:
            role: str = item.role
            content = _text(item.content)
            messages.append({"role": "user" if role == "user" else "assistant", "content": content})
    return messages


def _attach(messages: list[Message], item: CallItem) -> None:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    call = ToolCall(
        id=item.call_id,
        type="function",
        function={"name": item.name, "arguments": item.arguments},
    )
    messages[-1].setdefault("tool_calls", []).append(call)


def _text(content: str | list[InputText] | list[OutputText]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _instructions(body: ResponseRequest, items: list[Item]) -> str:
    system = [_text(i.content) for i in items if isinstance(i, SaidByOthers) and i.role != "user"]
    return "\n\n".join(text for text in (body.instructions or "", *system) if text)


def _tools(body: ResponseRequest) -> list[ClientTool]:
    return [
        ClientTool(tool.name, tool.description or "", tool.parameters or NO_ARGUMENTS)
        for tool in body.tools or ()
    ]


def _choice(body: ResponseRequest) -> str:
    if isinstance(body.tool_choice, NamedTool):
        return body.tool_choice.name
    return body.tool_choice or "auto"
