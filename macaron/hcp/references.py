"""What the sections of an HCP document say of each other: every name that is used is there, once.

Each complaint is a field's path, what is wrong and what was found; the document turns them into
one error.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from macaron.hcp.schema import BUILTINS

if TYPE_CHECKING:
    from macaron.hcp.document import HCP

Path = tuple[str | int, ...]
Complaint = tuple[Path, str, object]
"""Where, what is wrong (with what is allowed), what was found."""


def check_references(hcp: "HCP") -> None:
    """Passes where every name that is used is there.

    Raises:
        ValidationError: with the path of each field that is wrong.
    """
    complain([*_router(hcp), *_specialists(hcp), *_tools(hcp), *_hooks(hcp)])


def complain(complaints: Sequence[Complaint]) -> None:
    """Raises pydantic's error for the complaints, if there are any."""
    if complaints:
        details = [
            InitErrorDetails(
                type=PydanticCustomError("hcp", "{said}", {"said": said}), loc=path, input=found
            )
            for path, said, found in complaints
        ]
        raise ValidationError.from_exception_data("HCP", details)


def _router(hcp: "HCP") -> Iterator[Complaint]:
    yield from _missing(("router", "default"), hcp.router.default, hcp.specialists, "specialist")


def _specialists(hcp: "HCP") -> Iterator[Complaint]:
    names: dict[str, str] = {}
    for key, config in hcp.specialists.items():
        path: Path = ("specialists", key)
        if (first := names.setdefault(config.name, key)) != key:
            yield (*path, "name"), f"should be its own, and {first} has it", config.name
        yield from _all_there((*path, "tools"), config.tools, hcp.tools, "tool")
        yield from _all_there((*path, "skills"), config.skills, hcp.skills, "skill")


def _tools(hcp: "HCP") -> Iterator[Complaint]:
    for name, tool in hcp.tools.items():
        path: Path = ("tools", name, "source")
        kind, _, server = tool.source.partition(":")
        if kind == "mcp":
            yield from _missing(path, server, hcp.mcp, "MCP server", found=tool.source)
        if kind == "builtin" and name not in BUILTINS:
            yield path, f"should be of {', '.join(BUILTINS)} only, not of {name}", tool.source


def _hooks(hcp: "HCP") -> Iterator[Complaint]:
    names: dict[str, int] = {}
    for number, hook in enumerate(hcp.hooks):
        path: Path = ("hooks", number)
        if (first := names.setdefault(hook.name, number)) != number:
            yield (*path, "name"), f"should be its own, and hooks.{first} has it", hook.name
        yield from _all_there(
            (*path, "specialists"), hook.specialists, hcp.specialists, "specialist"
        )
        yield from _all_there((*path, "tools"), hook.tools, hcp.tools, "tool")


def _all_there(
    path: Path, names: Iterable[str], there: Mapping[str, object], what: str
) -> Iterator[Complaint]:
    for number, name in enumerate(names):
        yield from _missing((*path, number), name, there, what)


def _missing(
    path: Path, name: str, there: Mapping[str, object], what: str, found: str = ""
) -> Iterator[Complaint]:
    if name not in there:
        known = f"there are {', '.join(there)}" if there else f"there is no {what} at all"
        yield path, f"no {what} {name!r}; {known}", found or name
