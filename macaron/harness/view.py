"""A view: the session as one specialist sees it, with the means it has."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from macaron.harness.allowlist import Sources, tool_box
from macaron.harness.functions import Functions
from macaron.harness.prompts import first_messages
from macaron.harness.repl import Repl
from macaron.harness.skills import Skills
from macaron.harness.space import Space, shell_tool
from macaron.harness.surface import Introduction, Surface
from macaron.harness.template import ChatTemplate
from macaron.harness.tools import ToolBox
from macaron.harness.transcript import Transcript
from macaron.hcp.document import HCP, SpecialistConfig
from macaron.messages import Message


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

    def extend(self, messages: Sequence[Message]) -> None:
        """Puts messages behind what the transcript holds, up to where a response begins."""
        if len(self.transcript):
            ids = self.template.follow(messages, last=self.transcript.last)
        else:
            first = first_messages(self.introduction.system, messages)
            ids = self.template.start(first, self.introduction.tools)
        self.transcript.give(ids)


def open_view(
    hcp: HCP, specialist: str, template: ChatTemplate, sources: Sources, space: Space
) -> View:
    """A specialist's view of a session that it has seen nothing of.

    Raises:
        ConfigError: its tools are not what the HCP says.
    """
    config = hcp.specialists[specialist]
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
