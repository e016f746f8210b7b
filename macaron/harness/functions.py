"""The functions surface: OpenAI-style tool calls, several at once, each answered with text."""

import json

from macaron.harness.calls import FORM, Parsed, parse_calls
from macaron.harness.cut import share
from macaron.harness.surface import Introduction
from macaron.harness.tools import ToolBox
from macaron.harness.use import TurnTools


class Functions:
    """Tool calls written in text."""

    def __init__(self, result_chars: int, has_tools: bool) -> None:
        """
        Args:
            result_chars: characters of results that go back to the model, a round.
            has_tools: without tools, any response is an answer.
        """
        self._limit, self._has_tools = result_chars, has_tools

    def introduce(self, system: str, box: ToolBox, shows_tools: bool) -> Introduction:
        """The template shows the tools; where it does not, the system prompt lists them."""
        if not len(box):
            return Introduction(system)
        if shows_tools:
            return Introduction(system, box.specs())
        lines = [json.dumps(spec["function"], ensure_ascii=False) for spec in box.specs()]
        listed = "\n".join(["Tools:", *lines, f"To call one, write {FORM}"])
        return Introduction(f"{system}\n\n{listed}" if system else listed)

    def read(self, text: str) -> Parsed:
        """Calls between their tags, and the text outside of them."""
        return parse_calls(text) if self._has_tools else Parsed(text, ())

    def act(self, parsed: Parsed, tools: TurnTools) -> list[str]:
        """The calls' results in their order; a call that is wrong gets an error as its result."""
        results = [
            tools.unreadable(call.error) if call.error else tools.answer(call.name, call.arguments)
            for call in parsed.calls
        ]
        return share(results, self._limit)
