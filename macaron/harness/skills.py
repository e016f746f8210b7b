"""Skills: texts of the HCP that a specialist gets when they are of use, once a session."""

from collections.abc import Mapping, Sequence
from typing import Any

from macaron.harness.patterns import found
from macaron.harness.tools import Tool, ToolFault
from macaron.hcp.schema import SkillConfig

LOAD_SKILL = "load_skill"


class Skills:
    """The skills of one specialist in one session."""

    def __init__(self, skills: Mapping[str, SkillConfig]) -> None:
        self._skills = skills
        self.loaded: frozenset[str] = frozenset()
        """Names of those that the specialist has been given."""

    def triggered(self, text: str) -> str:
        """The texts of the skills that a user's text calls for and that are not loaded yet.

        They become loaded. Each stands under a line with its name; they go behind the user's text.
        """
        names = [
            name
            for name, skill in self._skills.items()
            if name not in self.loaded and skill.trigger and found(skill.trigger, text) is not None
        ]
        self.loaded |= set(names)
        return "\n\n".join(f"[skill: {name}]\n{self._skills[name].text}" for name in names)

    def load(self, name: str) -> str:
        """The text of a skill, which becomes loaded.

        Raises:
            ToolFault: the specialist has no such skill.
        """
        if name not in self._skills:
            known = ", ".join(self._skills) or "none"
            raise ToolFault(f"no skill is named {name!r}; the skills are: {known}")
        if name in self.loaded:
            return f"{name} is loaded already; read it above"
        self.loaded |= {name}
        return self._skills[name].text

    def tool(self) -> Tool:
        """`load_skill`, whose description lists the skills."""
        listed = "".join(f"\n- {name}: {s.description}" for name, s in self._skills.items())
        return Tool(
            name=LOAD_SKILL,
            description=f"The skills:{listed}",
            parameters=_parameters(tuple(self._skills)),
            call=lambda arguments: self.load(arguments["name"]),
        )


def _parameters(names: Sequence[str]) -> dict[str, Any]:
    name = {"type": "string", "description": f"one of: {', '.join(names)}"}
    return {"type": "object", "properties": {"name": name}, "required": ["name"]}
