"""A view: the session as one specialist sees it, with the means it has."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from macaron.harness.allowlist import Sources, tool_box
from macaron.harness.functions import Functions
from macaron.harness.hooks import Hooks
from macaron.harness.namespace import Namespace
from macaron.harness.repl import Repl
from macaron.harness.skills import Skills
from macaron.harness.space import Space, shell_tool
from macaron.harness.surface import Introduction, Surface
from macaron.harness.template import ChatTemplate
from macaron.harness.tools import ToolBox
from macaron.harness.transcript import Transcript
from macaron.hcp.document import HCP, SpecialistConfig
from macaron.messages import Message

REFUSED = "(a message that was refused)"
"""What specialists see in later turns of a user's text that a hook refused."""


@dataclass(frozen=True)
class Heard:
    """A turn's messages once hooks and skills have had their say."""

    messages: list[Message]
    """As the specialist sees them."""
    given: list[Message]
    """As other specialists will: without notes and skills."""
    refusal: str | None = None
    """Said to the user where a hook refused the turn."""


@dataclass
class View:
    """One specialist's side of a session."""

    config: SpecialistConfig
    template: ChatTemplate
    surface: Surface
    box: ToolBox
    skills: Skills
    introduction: Introduction
    transcript: Transcript = field(default_factory=Transcript)
    seen: int = 0
    """Messages of the session's history that the transcript holds."""

    def hear(self, messages: Sequence[Message], hooks: Hooks) -> Heard:
        """Puts hooks and skills to the user's last message; skills become loaded."""
        place = _last_user(messages)
        if place is None:
            return Heard([*messages], [*messages])
        ruling = hooks.ask("before_turn", messages[place]["content"])
        if ruling.refusal is not None:
            given = _with_text(messages, place, REFUSED)
            return Heard([*messages], given, ruling.refusal)
        skills = self.skills.triggered(ruling.text)
        heard = "\n\n".join(part for part in (ruling.noted, skills) if part)
        given = _with_text(messages, place, ruling.text)
        return Heard(_with_text(messages, place, heard), given)

    def extend(self, messages: Sequence[Message]) -> None:
        """Puts messages behind what the transcript holds, up to where a response begins."""
        if len(self.transcript):
            ids = self.template.follow(messages, last=self.transcript.last)
        else:
            first = first_messages(self.introduction.system, messages)
            ids = self.template.start(first, self.introduction.tools)
        self.transcript.give(ids)


def open_view(
    hcp: HCP,
    specialist: str,
    template: ChatTemplate,
    sources: Sources,
    space: Space | None = None,
) -> View:
    """A specialist's view of a session that it has seen nothing of.

    Args:
        hcp: the harness.
        specialist: key of its `specialists`.
        template: the base's.
        sources: what is provided.
        space: the session's namespace; without it, the view is for looking at only.

    Raises:
        ConfigError: its tools are not what the HCP says.
    """
    config, space = hcp.specialists[specialist], space or Space(Namespace)
    skills = Skills({name: hcp.skills[name] for name in config.skills})
    builtins = [*sources.get("builtin", ()), skills.tool(), shell_tool(space, config.result_chars)]
    given = {**sources, "builtin": builtins}
    box = tool_box(hcp, specialist, given)
    surface: Surface
    if config.surface == "repl":
        surface = Repl(config.result_chars, space)
    else:
        surface = Functions(config.result_chars, has_tools=bool(len(box)))
    introduction = surface.introduce(config.system, box, bool(len(box)) and template.shows_tools)
    return View(config, template, surface, box, skills, introduction)


def first_messages(system: str, messages: Sequence[Message]) -> list[Message]:
    """The conversation with the system prompt, where there is one, before it."""
    return [{"role": "system", "content": system}, *messages] if system else [*messages]


def _last_user(messages: Sequence[Message]) -> int | None:
    return next((i for i in reversed(range(len(messages))) if messages[i]["role"] == "user"), None)


def _with_text(messages: Sequence[Message], place: int, text: str) -> list[Message]:
    changed = list(messages)
    changed[place] = {**changed[place], "content": text}
    return changed
