"""Changing one field of an HCP file: comments and order stay, and so does the file where the
outcome would be no HCP.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from macaron.errors import ConfigError
from macaron.files import write_atomic
from macaron.hcp.changes import ABSENT, Change, apply, assign
from macaron.hcp.document import HCP, parse_hcp
from macaron.hcp.migration import CURRENT
from macaron.hcp.paths import holds, look_up, resolve, split_path, values_of
from macaron.hcp.text import spelled
from macaron.profile import read_toml


@dataclass(frozen=True)
class Edit:
    """What setting a field came to."""

    hcp: HCP
    changes: list[Change]
    """Empty where the field had the value, and nothing was written."""
    migrations: tuple[str, ...]
    """What brought the file to the current version, if it was written."""


def set_field(file: Path, path: str, literal: str) -> Edit:
    """Gives a field of a file the value of a TOML literal.

    Args:
        file: the document; replaced as a whole, or not touched.
        path: of the field, as `macaron.hcp.paths` has it.
        literal: the value as TOML writes it; a field that holds a text takes bare words too.

    Raises:
        ConfigError: one line; the file stays as it was.
    """
    text = read_toml(file)
    loaded = parse_hcp(text, file)
    changes = assign(loaded.hcp, path, _typed(loaded.hcp, path, literal), file)
    if not changes:
        return Edit(loaded.hcp, [], ())
    new = apply(loaded.hcp, changes)
    write_atomic(file.resolve(), _edited(text, changes, new, file))
    return Edit(new, changes, loaded.migrations)


def _typed(hcp: HCP, path: str, literal: str) -> Any:
    values = values_of(hcp)
    place = resolve(values, split_path(path))
    try:
        given = tomllib.loads(f"value = {literal}")
    except ValueError as error:
        above = look_up(values, place[:-1])
        if holds(above, place[-1]) and isinstance(above[place[-1]], str):
            return literal
        known = "" if holds(above, place[-1]) else f"; {path} is no field that there is"
        raise ConfigError(
            f"not TOML: {error}{known}", where=f"{literal:.80}", mend="a text stands in quotes"
        ) from error
    if set(given) != {"value"}:
        raise ConfigError("is more than one value", where=repr(literal), mend="give one value")
    return given["value"]


def _edited(text: str, changes: list[Change], new: HCP, file: Path) -> str:
    document = tomlkit.parse(text)
    document["version"] = CURRENT
    for change in changes:
        _make(document, change)
    edited = tomlkit.dumps(document)
    # The editor of TOML is not ours, and a file may be written in ways it places badly.
    if parse_hcp(edited, file).hcp.digest != new.digest:
        raise ConfigError("cannot be edited in place", where=str(file), mend="edit it by hand")
    return edited


def _make(document: Any, change: Change) -> None:
    *above, last = change.path
    node = document
    for part, below in zip(above, change.path[1:], strict=True):
        if not holds(node, part):
            # A section at its defaults is not written.
            node[part] = tomlkit.aot() if isinstance(below, int) else {}
        node = node[part]
    if change.new is ABSENT:
        del node[last]
    elif isinstance(last, int) and last == len(node):
        node.append(spelled(change.new))
    else:
        node[last] = spelled(change.new)
