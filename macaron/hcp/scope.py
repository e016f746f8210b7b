"""Write scope: patterns over fields' paths, and what a person must look at before it counts.

A pattern covers the fields that it matches and all that is below them: `skills.*` covers
`skills.greet` and `skills.greet.text`. `*` and `?` stand for any part, and any letter, of one name.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, get_args, get_origin

from pydantic import AfterValidator, BaseModel

from macaron.errors import ConfigError
from macaron.hcp.changes import Change, diff
from macaron.hcp.document import HCP
from macaron.hcp.paths import Path, split_path
from macaron.hcp.schema import HookConfig

SENSITIVE = {
    "tool exposure": (
        "tools.*",
        "mcp.*",
        "specialists.*.tools",
        "specialists.*.surface",
    ),
    "network": ("workspace.network", "mcp.*.url", "mcp.*.command", "mcp.*.env"),
    "workspace limits": ("workspace.*", "session.*"),
    "the pool's rules": ("pool.*",),
}
"""What a change touches -> patterns of the fields that it touches it by."""
SAFETY = "a safety hook"


def covers(pattern: str, path: Path) -> bool:
    """Whether a pattern matches a field or one above it."""
    parts = split_path(pattern)
    return len(parts) <= len(path) and _meet(parts, path)


def in_scope(path: Path, scope: Sequence[str]) -> bool:
    """Whether some pattern of the scope covers a field."""
    return any(covers(pattern, path) for pattern in scope)


def touched(old: HCP, new: HCP) -> list[str]:
    """What of the sensitive the difference of two documents touches, in words."""
    changes = diff(old, new)
    found = [
        what
        for what, patterns in SENSITIVE.items()
        if any(_meet(split_path(p), c.path) for p in patterns for c in changes)
    ]
    return [*found, SAFETY] if _guarded(old) != _guarded(new) else found


def _meet(parts: Sequence[str], path: Path) -> bool:
    """Whether one of them is at, above or below the other."""
    return all(fnmatchcase(str(p), part) for p, part in zip(path, parts, strict=False))


def _guarded(hcp: HCP) -> dict[str, list[HookConfig]]:
    """By moment, the hooks up to the last safety hook: what runs before it can disarm it."""
    found: dict[str, list[HookConfig]] = {}
    waiting: dict[str, list[HookConfig]] = {}
    for hook in hcp.hooks:
        waiting.setdefault(hook.when, []).append(hook)
        if hook.safety:
            found.setdefault(hook.when, []).extend(waiting.pop(hook.when))
    return found


def outside(changes: Sequence[Change], scope: Sequence[str]) -> list[str]:
    """The changed fields that no pattern of the scope covers."""
    return [change.field for change in changes if not in_scope(change.path, scope)]


def check_pattern(pattern: str) -> str:
    """The pattern, once it can cover some field of the schema.

    Raises:
        ValueError: it cannot; the message says what there is.
    """
    try:
        parts = split_path(pattern)
    except ConfigError as error:
        raise ValueError("should be a pattern of paths, like specialists.*.system") from error
    kinds: list[Any] = [HCP]
    for depth, part in enumerate(parts):
        below = [kind for above in kinds for kind in _below(above, part)]
        if not below:
            raise ValueError(_unmatched(".".join(parts[:depth]), kinds))
        kinds = below
    return pattern


Pattern = Annotated[str, AfterValidator(check_pattern)]
"""A pattern that can cover some field of the schema."""


def _below(kind: Any, part: str) -> Iterator[Any]:
    """The types that a part of a pattern may lead to from a type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from (
            kind.model_fields[name].annotation for name in _fields(kind) if fnmatchcase(name, part)
        )
    elif kind is Any:
        yield Any
    elif get_origin(kind) is dict and re.fullmatch(r"[A-Za-z0-9_.*?-]{1,64}", part):
        yield get_args(kind)[-1]
    elif _is_sections(kind) and re.fullmatch(r"[0-9*?]+", part):
        yield get_args(kind)[0]


def _fields(kind: Any) -> list[str]:
    """The fields of a section; the schema's version is none that could change."""
    return [name for name in getattr(kind, "model_fields", ()) if name != "version"]


def _is_sections(kind: Any) -> bool:
    """Whether it is an array of sections; any other array changes as a whole."""
    inner = get_args(kind)[0] if get_origin(kind) is tuple else None
    return isinstance(inner, type) and issubclass(inner, BaseModel)


def _unmatched(above: str, kinds: Sequence[Any]) -> str:
    where = f" in {above}" if above else ""
    if known := dict.fromkeys(name for kind in kinds for name in _fields(kind)):
        return f"should match a field{where}; there are {', '.join(known)}"
    if any(map(_is_sections, kinds)):
        return f"should give an item{where} by its number, or *"
    return f"should end at {above}, which changes as a whole"
