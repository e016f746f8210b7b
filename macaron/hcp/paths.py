"""Paths of fields: `specialists.L1.system`, `hooks.0.text`, `tools.x.parameters."a.b"`.

Keys are written as in TOML, items of an array by their number; a path that names nothing is one
line that says what there is.
"""

import re
import tomllib
from collections.abc import Iterable
from typing import Any

from macaron.errors import ConfigError
from macaron.hcp.document import HCP
from macaron.profile import dotted

Path = tuple[str | int, ...]
"""Keys of tables and numbers of items, from the document's root."""

# A bare key, which in a pattern may hold wildcards, or one in quotes.
_PART = r"""[A-Za-z0-9_*?-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'"""
_DOTTED = re.compile(rf"(?:{_PART})(?:\.(?:{_PART}))*")


def split_path(text: str) -> tuple[str, ...]:
    """The parts of a path or pattern, quotes taken off.

    Raises:
        ConfigError: it is no dotted key.
    """
    if not _DOTTED.fullmatch(text):
        raise ConfigError("is no path", where=repr(text), mend="write it like specialists.L1.name")
    return tuple(map(_unquoted, re.findall(_PART, text)))


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        return str(tomllib.loads(f"key = {part}")["key"])
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not TOML: {error}", where=part, mend="mend the quotes") from error


def values_of(hcp: HCP) -> dict[str, Any]:
    """The document's values as JSON, defaults included."""
    return hcp.model_dump(mode="json")


def get(hcp: HCP, path: str) -> Any:
    """The JSON value at a path, defaults included.

    Raises:
        ConfigError: there is nothing at it.
    """
    return look_up(values_of(hcp), resolve(values_of(hcp), split_path(path)))


def resolve(values: Any, parts: Iterable[str]) -> Path:
    """The path of parts whose last one may be new: a number where an array is.

    Raises:
        ConfigError: a part above the last names nothing, or nothing can stand below it.
    """
    path: Path = ()
    node = values
    for part in parts:
        if path:
            node = look_up(values, path)
        path = (*path, _step(node, part, path))
    return path


def _step(node: Any, part: str, path: Path) -> str | int:
    if isinstance(node, list):
        if part.isdecimal():
            return int(part)
        raise ConfigError(
            f"is an array, and {part!r} no number", where=dotted(path), mend=_allowed(node)
        )
    if isinstance(node, dict):
        return part
    raise ConfigError(f"is a value, with no {part!r} in it", where=dotted(path))


def look_up(values: Any, path: Path) -> Any:
    """The value at a resolved path.

    Raises:
        ConfigError: there is none.
    """
    node = values
    for depth, part in enumerate(path):
        if not holds(node, part):
            where = dotted(path[: depth + 1])
            raise ConfigError("no such field", where=where, mend=_allowed(node))
        node = node[part]
    return node


def holds(node: Any, part: str | int) -> bool:
    """Whether a table has the key, or an array the item."""
    if isinstance(node, list):
        return isinstance(part, int) and 0 <= part < len(node)
    return isinstance(node, dict) and part in node


def _allowed(node: Any) -> str:
    if isinstance(node, list):
        return f"there are {len(node)} items, from 0" if node else "it has no items"
    keys = [dotted((key,)) for key in node] if isinstance(node, dict) else []
    return f"there are {', '.join(keys)}" if keys else "it is empty"
