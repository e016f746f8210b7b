"""Hooks: an HCP's checks and rewrites at five moments of a turn; each firing is recorded.

No code of a document runs here: a hook searches a text for a pattern and does one of four things.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from macaron.harness.patterns import SLOW, found, replaced
from macaron.hcp.schema import Action, Event, HookConfig

_QUOTE = 200


@dataclass(frozen=True)
class Firing:
    """One time that a hook acted."""

    hook: str
    when: Event
    action: Action
    found: str
    """What its pattern matched, at most 200 characters; empty where it acts on an absence."""
    tool: str = ""
    """Whose call it was, before and after a call."""


@dataclass
class Ruling:
    """What the hooks of one moment made of a text."""

    text: str
    notes: list[str] = field(default_factory=list)
    """To put behind the text of the moment."""
    refusal: str | None = None
    """Said in place of the text; no later hook was asked."""
    request: str | None = None
    """Said to the specialist, which goes on; at most once a turn and hook."""

    @property
    def noted(self) -> str:
        """The text with its notes."""
        return "\n\n".join(part for part in (self.text, *self.notes) if part)


class Hooks:
    """The hooks of one turn."""

    def __init__(self, hooks: Sequence[HookConfig], specialist: str) -> None:
        self._hooks = [h for h in hooks if not h.specialists or specialist in h.specialists]
        self._requested: set[str] = set()
        self.firings: list[Firing] = []
        """In their order."""

    def listen(self, when: Event) -> bool:
        """Whether any hook is asked at that moment."""
        return any(hook.when == when for hook in self._hooks)

    def ask(self, when: Event, text: str, tool: str = "") -> Ruling:
        """What the hooks of that moment make of the text, in the document's order.

        Args:
            when: the moment.
            text: the user's text, a call's arguments as JSON, its result, or the answer.
            tool: whose call it is.
        """
        ruling = Ruling(text)
        for hook in self._hooks:
            if hook.when == when and (not hook.tools or tool in hook.tools):
                self._ask(hook, ruling, tool)
            if ruling.refusal is not None:
                break
        return ruling

    def _ask(self, hook: HookConfig, ruling: Ruling, tool: str) -> None:
        match = found(hook.pattern, ruling.text)
        # A search that takes too long fires either way: a hook may be a safety boundary.
        fires = match == SLOW or (match is None) == hook.negate
        if not fires or hook.name in self._requested:
            return
        self.firings.append(Firing(hook.name, hook.when, hook.action, (match or "")[:_QUOTE], tool))
        if hook.action == "refuse":
            ruling.refusal = hook.text or f"refused ({hook.name})"
        elif hook.action == "replace":
            ruling.text = replaced(hook.pattern, ruling.text, hook.text)
        elif hook.action == "note":
            ruling.notes.append(hook.text)
        elif ruling.request is None:
            self._requested.add(hook.name)
            ruling.request = hook.text
