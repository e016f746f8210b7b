"""Making a response's calls: some here, through the surface; some handed over to the client."""

from collections.abc import Sequence
from dataclasses import replace

from macaron.harness.calls import Parsed
from macaron.harness.tools import ToolFault
from macaron.harness.turn import OpenTurn
from macaron.messages import ToolCall


def make_calls(turn: OpenTurn, parsed: Parsed, calls: Sequence[ToolCall]) -> list[str | None]:
    """What the model reads of each call; None where the client has to make it.

    Args:
        turn: open; the calls that the client has to make become its `open_calls`.
        parsed: the response.
        calls: its calls in OpenAI's form; a handed one gets the arguments that hooks left.

    Raises:
        ToolBrokeError: a tool has a bug.
        SandboxFailedError: the sandbox failed.
    """
    texts: list[str | None] = [None] * len(calls)
    own: list[int] = []
    handed: list[ToolCall] = []
    for n, (call, made) in enumerate(zip(parsed.calls, calls, strict=True)):
        if call.error or call.name not in turn.view.handed:
            own.append(n)
            continue
        try:
            made["function"]["arguments"] = turn.tools.hand_over(call.name, call.arguments)
            handed.append(made)
        except ToolFault as fault:
            texts[n] = f"Error: {fault.text}"
    mine = replace(parsed, calls=tuple(parsed.calls[n] for n in own))
    for n, text in zip(own, turn.view.surface.act(mine, turn.tools), strict=True):
        texts[n] = text
    turn.open_calls = tuple(handed)
    return texts
