"""The tools a specialist gets: those that its HCP lists, from the sources that it names.

Nothing else that a source provides is ever shown or callable. What the model reads of a tool is
the HCP's text, so that the document alone says what was shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from macaron.errors import ConfigError
from macaron.harness.skills import LOAD_SKILL
from macaron.harness.tools import Tool, ToolBox, ToolFault
from macaron.hcp.document import HCP

Sources = Mapping[str, Sequence[Tool]]
"""What each source provides, by the names that `tools.<name>.source` takes."""


def tool_box(hcp: HCP, specialist: str, sources: Sources) -> ToolBox:
    """The specialist's tools, in the order of its list.

    A helper of the pool that is not provided is left out: it was demoted.

    Raises:
        ConfigError: another source lacks a listed tool, or has it with other arguments.
    """
    names = hcp.specialists[specialist].tools
    made = (_tool(hcp, name, sources, f"specialists.{specialist}.tools") for name in names)
    return ToolBox([tool for tool in made if tool is not None])


def with_tools(box: ToolBox, more: Sequence[Tool]) -> ToolBox:
    """The box with a client's tools behind its own.

    Raises:
        ConfigError: a name is taken.
    """
    names = [tool.name for tool in (*box, *more)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"the tool {twice[0]!r} is there already", where="tools", mend="give it another name"
        )
    return ToolBox([*box, *more])


def declared(hcp: HCP) -> Sources:
    """Sources that provide whatever the HCP lists, for looking at and not for calling."""
    sources: dict[str, list[Tool]] = {}
    for name, tool in hcp.tools.items():
        one = Tool(name, tool.description, tool.parameters, _only_declared)
        sources.setdefault(tool.source, []).append(one)
    return sources


def _only_declared(arguments: Mapping[str, Any]) -> Any:
    raise ToolFault("the tool is not connected", "dead")


def _tool(hcp: HCP, name: str, sources: Sources, where: str) -> Tool | None:
    config = hcp.tools[name]
    provided = {tool.name: tool for tool in sources.get(config.source, ())}
    if name not in provided:
        if config.source == "pool":
            return None
        known = ", ".join(provided) or "no tools"
        raise ConfigError(
            f"{name} should come from {config.source!r}, which provides {known}",
            where=where,
            mend="take it from the list, or give what provides it",
        )
    tool = provided[name]
    if difference := mismatch(config.parameters, tool.parameters):
        raise ConfigError(
            f"{name} of {config.source!r} {difference}",
            where=f"tools.{name}.parameters",
            mend="write the arguments that it has",
        )
    description = config.description
    if name == LOAD_SKILL:
        description = f"{description}\n{tool.description}".strip()
    return Tool(name, description, config.parameters, tool.call)


def mismatch(declared: Mapping[str, Any], provided: Mapping[str, Any]) -> str:
    """Why calls that the declared schema allows would not fit the provided one; "" if they do.

    Names, needs and types of the arguments are compared; what is said of them is not.
    """
    ours, theirs = declared.get("properties", {}), provided.get("properties", {})
    closed = "properties" in provided or provided.get("additionalProperties") is False
    if closed and (unknown := sorted(ours.keys() - theirs.keys())):
        return f"has no argument {', '.join(unknown)}"
    needed = set(provided.get("required", ())) - set(declared.get("required", ()))
    if needed:
        return f"needs the argument {', '.join(sorted(needed))}"
    for name in ours.keys() & theirs.keys():
        one, other = _type(ours[name]), _type(theirs[name])
        if one and other and not set(one) <= set(other):
            return f"takes {name} as {' or '.join(other)}, not as {' or '.join(one)}"
    return ""


def _type(schema: Any) -> tuple[str, ...]:
    kind = schema.get("type", ()) if isinstance(schema, Mapping) else ()
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    return (*kinds, "integer") if "number" in kinds else kinds
