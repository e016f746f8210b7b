"""Requests of both endpoints become one `TurnRequest`; what the server's limits forbid is refused.

The rules of the two endpoints meet here, so that they cannot drift apart.
"""

from collections.abc import Mapping, Sequence

from macaron.messages import Message
from macaron.serve.http.errors import ApiError
from macaron.serve.turns import ClientTool
from macaron.serving import Limits, ServeConfig


def check_model(model: str, config: ServeConfig) -> None:
    """Raises an `ApiError` for any but the one public name."""
    if model != config.model:
        raise ApiError(
            404,
            f"The model does not exist; there is `{config.model}`.",
            param="model",
            code="model_not_found",
        )


def check_count(count: int, most: int, param: str, what: str) -> None:
    """Raises an `ApiError` for too many."""
    if count > most:
        raise ApiError(
            400, f"Too many {what}: {count}, at most {most}.", param=param, code="too_many"
        )


def max_tokens(given: Mapping[str, int | None], limits: Limits) -> int | None:
    """The one of several spellings that is given; None leaves it to the harness."""
    found = {name: value for name, value in given.items() if value is not None}
    if len(set(found.values())) > 1:
        names = " and ".join(found)
        raise ApiError(400, f"{names} contradict each other.", param=min(found))
    for name, value in found.items():
        check_count(value, limits.max_tokens, name, "tokens")
        return value
    return None


def end_user(user: str | None, safety_identifier: str | None) -> str | None:
    """The client's name for the end user, of which the first spelling is the older."""
    if user and safety_identifier and user != safety_identifier:
        raise ApiError(
            400, "user and safety_identifier contradict each other.", param="safety_identifier"
        )
    return safety_identifier or user


def check_tools(tools: Sequence[ClientTool], choice: str, limits: Limits) -> None:
    """Raises an `ApiError` for a name taken twice, or a choice that there is not."""
    check_count(len(tools), limits.tools, "tools", "tools")
    names = [tool.name for tool in tools]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise ApiError(400, f"Two tools are named {double}.", param="tools")
    if choice == "required" and not names:
        raise ApiError(400, "A tool is required, and there is none.", param="tool_choice")
    if choice not in ("auto", "none", "required", *names):
        raise ApiError(400, f"There is no tool {choice}.", param="tool_choice")


def check_order(messages: Sequence[Message], param: str, *, whole: bool) -> None:
    """Raises an `ApiError` unless it is the user's turn, and every call has one result.

    Args:
        messages: without system ones.
        param: the field they came in.
        whole: they are the conversation from its beginning; else what is new of it.
    """
    if not messages or messages[-1]["role"] not in ("user", "tool"):
        raise ApiError(400, "The last message has to be a user's or a tool's.", param=param)
    asked: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            call = message["tool_call_id"]
            if call not in asked and (whole or asked):
                raise ApiError(400, "A result answers no call before it.", param=param)
            asked.discard(call)
            continue
        if asked and whole:
            raise ApiError(400, "A call has no result.", param=param, code="missing_result")
        asked = {call["id"] for call in message.get("tool_calls", ())}
    if asked:
        raise ApiError(400, "A call has no result.", param=param, code="missing_result")
