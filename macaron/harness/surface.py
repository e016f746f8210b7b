"""A surface: how a specialist acts, and what its responses mean.

A surface reads a response as an answer or as calls, and makes the calls. It keeps nothing between
turns but what its namespace holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from macaron.harness.calls import Parsed
from macaron.harness.tools import ToolBox
from macaron.harness.use import TurnTools


@dataclass(frozen=True)
class Introduction:
    """How a conversation begins."""

    system: str
    """The system prompt."""
    tools: Sequence[Mapping[str, Any]] = ()
    """In OpenAI's form, for the chat template to show."""


class Surface(Protocol):
    """How a specialist acts."""

    def introduce(self, system: str, box: ToolBox, shows_tools: bool) -> Introduction:
        """How the specialist is told of its tools.

        Args:
            system: its system prompt.
            box: its tools.
            shows_tools: whether the chat template shows tools that it is given.
        """
        ...

    def read(self, text: str) -> Parsed:
        """A response taken apart; without calls, it is the answer."""
        ...

    def act(self, parsed: Parsed, tools: TurnTools) -> list[str]:
        """What the model reads of each call, cut to the round's budget.

        Raises:
            ToolBrokeError: a tool has a bug.
            SandboxFailedError: the sandbox failed.
        """
        ...
