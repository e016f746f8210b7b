"""What differs between two HCP documents, field by field, and applying it.

`apply(old, diff(old, new))` is `new`, and applying the changes inverted leads back. A section that
only one of the two has is one change, and so is an array, unless it is one of sections.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import ValidationError

from macaron.errors import ConfigError
from macaron.files import canonical_json
from macaron.hcp.document import HCP
from macaron.hcp.paths import Path, holds, look_up, resolve, split_path, values_of
from macaron.profile import dotted, invalid


class Absent(Enum):
    """The value of a field that is not there."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True)
class Change:
    """One field that differs."""

    path: Path
    old: Any
    """JSON value; ABSENT where the first document has no such field."""
    new: Any
    """JSON value; ABSENT where the second has none."""

    @property
    def field(self) -> str:
        """The path as a person writes it."""
        return dotted(self.path)

    def __str__(self) -> str:
        return f"{self.field}: {shown(self.old)} -> {shown(self.new)}"

    def to_json(self) -> dict[str, Any]:
        """{path, old, new}; an absent value has no key."""
        sides = {"old": self.old, "new": self.new}
        return {"path": self.field, **{k: v for k, v in sides.items() if v is not ABSENT}}


def shown(value: Any) -> str:
    """A value on one line."""
    return "none" if value is ABSENT else canonical_json(value)


def diff(old: HCP, new: HCP) -> list[Change]:
    """What differs, in the order of the fields."""
    return list(_differences((), values_of(old), values_of(new)))


def _differences(path: Path, old: Any, new: Any) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences((*path, key), old.get(key, ABSENT), new.get(key, ABSENT))
    elif _tables(old) and _tables(new):
        yield from _items(path, old, new)
    elif not _same(old, new):
        yield Change(path, old, new)


def _items(path: Path, old: list[Any], new: list[Any]) -> Iterator[Change]:
    for number, (before, after) in enumerate(zip(old, new, strict=False)):
        yield from _differences((*path, number), before, after)
    # In the order in which they can be taken from the end, or put there.
    for number in reversed(range(len(new), len(old))):
        yield Change((*path, number), old[number], ABSENT)
    for number in range(len(old), len(new)):
        yield Change((*path, number), ABSENT, new[number])


def _tables(value: Any) -> bool:
    """Whether it is an array of tables; an empty one could be."""
    return isinstance(value, list) and all(isinstance(part, dict) for part in value)


def _same(old: Any, new: Any) -> bool:
    # Not ==, to which 1, 1.0 and true are one.
    if ABSENT in (old, new):
        return old is new
    return canonical_json(old) == canonical_json(new)


def invert(changes: Sequence[Change]) -> list[Change]:
    """The changes that lead back."""
    return [Change(change.path, change.new, change.old) for change in reversed(changes)]


def apply(hcp: HCP, changes: Sequence[Change], where: object = "HCP") -> HCP:
    """The document, which is that of `where`, with the changes made in their order.

    Raises:
        ConfigError: a field is not what its change says it was, or the outcome is no HCP.
    """
    values = deepcopy(values_of(hcp))
    for change in changes:
        _make(values, change)
    return revalidated(values, where)


def assign(hcp: HCP, path: str, value: Any, where: object = "HCP") -> list[Change]:
    """The changes that give the field at a path a value; empty where it has it.

    Raises:
        ConfigError: nothing can stand at the path, or the outcome is no HCP.
    """
    values = values_of(hcp)
    parts = resolve(values, split_path(path))
    above = look_up(values, parts[:-1])
    old = above[parts[-1]] if holds(above, parts[-1]) else ABSENT
    return diff(hcp, apply(hcp, [Change(parts, old, value)], where))


def revalidated(values: Any, where: object = "HCP") -> HCP:
    """The HCP of raw values that came from `where`.

    Raises:
        ConfigError: they are none; the field is named.
    """
    try:
        return HCP.model_validate(values)
    except ValidationError as error:
        raise invalid(str(where), error, mend="the document stays as it was", kind=HCP) from error


def _make(values: Any, change: Change) -> None:
    above: Any = look_up(values, change.path[:-1])
    last: Any = change.path[-1]
    if not isinstance(above, (dict, list)):
        raise ConfigError("is a value, with nothing in it", where=dotted(change.path[:-1]))
    found = above[last] if holds(above, last) else ABSENT
    if not _same(found, change.old):
        raise ConfigError(
            f"is {shown(found)}, and the change is of {shown(change.old)}",
            where=change.field,
            mend="take the difference anew",
        )
    new = deepcopy(change.new)
    if isinstance(above, list) and (new is ABSENT or found is ABSENT):
        _resize(above, change, new)
    elif new is not ABSENT:
        above[last] = new
    elif found is not ABSENT:
        del above[last]


def _resize(above: list[Any], change: Change, new: Any) -> None:
    """Items come and go at an array's end, so that no other item gets another number."""
    if change.path[-1] != len(above) - (new is ABSENT):
        raise ConfigError(
            f"is not at the array's end, which has {len(above)} items",
            where=change.field,
            mend="items come and go at the end",
        )
    if new is ABSENT:
        above.pop()
    else:
        above.append(new)
