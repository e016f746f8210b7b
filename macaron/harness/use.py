"""Using tools within a turn: the hooks around each call, and the count of what went wrong."""

import json
import logging
from collections import Counter
from dataclasses import dataclass
from typing import Any

from macaron.harness.hooks import Hooks
from macaron.harness.space import SandboxFailedError
from macaron.harness.tools import (
    FaultKind,
    ToolBox,
    ToolFault,
    as_text,
    parse_arguments,
    parse_json,
)

log = logging.getLogger("macaron.harness")


class ToolBrokeError(Exception):
    """A tool raised what no tool should: a bug of whoever made it. It ends the turn."""


@dataclass(frozen=True)
class Used:
    """What a call came to."""

    value: Any
    """A JSON value."""
    text: str
    """The value as the model reads it."""
    notes: tuple[str, ...] = ()
    """Of the hooks, for the model."""


class TurnTools:
    """The tools of one turn."""

    def __init__(self, box: ToolBox, hooks: Hooks) -> None:
        self.box, self._hooks = box, hooks
        self.faults: Counter[FaultKind] = Counter()
        """Calls that came to nothing, by why."""
        self.calls = 0
        """Calls that were made, whatever came of them."""

    def answer(self, name: str, arguments_json: str) -> str:
        """What the model reads of a call; never raises for what the model wrote.

        Raises:
            ToolBrokeError: the tool has a bug.
        """
        try:
            used = self.use(name, self._arguments(name, arguments_json))
            return "\n\n".join([used.text, *used.notes])
        except ToolFault as fault:
            return f"Error: {fault.text}"

    def use(self, name: str, arguments: Any) -> Used:
        """The tool's value for these arguments.

        Raises:
            ToolFault: the call is wrong, refused, or the tool says no.
            ToolBrokeError: the tool has a bug.
        """
        self.calls += 1
        try:
            return self._use(name, arguments)
        except ToolFault as fault:
            self.faults[fault.kind] += 1
            raise
        except SandboxFailedError:
            raise
        except (Exception, SystemExit) as error:
            # A tool that would end this process is as broken as any: other sessions go on.
            log.exception("the tool %s broke", name)
            raise ToolBrokeError(f"{name}: {type(error).__name__}: {error}") from error

    def hand_over(self, name: str, arguments_json: str) -> str:
        """The arguments, as JSON, of a call that the client is to make.

        Raises:
            ToolFault: the call is wrong or refused.
        """
        self.calls += 1
        try:
            arguments = parse_arguments(name, arguments_json)
            if self._hooks.listen("before_tool"):
                arguments = self._before(name, arguments, [])
            return json.dumps(self.box.tool(name).check(arguments), ensure_ascii=False)
        except ToolFault as fault:
            self.faults[fault.kind] += 1
            raise

    def unreadable(self, why: str) -> str:
        """Counts a call that can't be read; what the model reads of it."""
        self.faults["malformed"] += 1
        return f"Error: {why}"

    def _arguments(self, name: str, arguments_json: str) -> Any:
        try:
            self.box.tool(name)
            return parse_arguments(name, arguments_json)
        except ToolFault as fault:
            self.faults[fault.kind] += 1
            raise

    def _use(self, name: str, arguments: Any) -> Used:
        notes: list[str] = []
        if self._hooks.listen("before_tool"):
            arguments = self._before(name, arguments, notes)
        try:
            value = self.box.run(name, arguments)
        except ToolFault as fault:
            raise ToolFault(self._after(name, fault.text, notes), fault.kind) from fault
        text = as_text(value)
        after = self._after(name, text, notes)
        if after != text:
            value = after if isinstance(value, str) else _reread(after)
        return Used(value, after, tuple(notes))

    def _before(self, name: str, arguments: Any, notes: list[str]) -> Any:
        text = json.dumps(arguments, ensure_ascii=False)
        ruling = self._hooks.ask("before_tool", text, name)
        if ruling.refusal is not None:
            raise ToolFault(ruling.refusal, "refused")
        notes += ruling.notes
        return arguments if ruling.text == text else parse_arguments(name, ruling.text)

    def _after(self, name: str, text: str, notes: list[str]) -> str:
        if not self._hooks.listen("after_tool"):
            return text
        ruling = self._hooks.ask("after_tool", text, name)
        if ruling.refusal is not None:
            raise ToolFault(ruling.refusal, "refused")
        notes += ruling.notes
        return ruling.text


def _reread(text: str) -> Any:
    """A value that a hook rewrote: still JSON, or else a text."""
    try:
        return parse_json(text)
    except ToolFault:
        return text
