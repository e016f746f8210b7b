"""Older minors of the schema are brought to the current one; nothing else is guessed at.

A step is a function over the document's raw values; what was done is said in its words.
"""

from collections.abc import Iterator
from typing import Any

from macaron.hcp.references import Complaint, Path, complain

CURRENT = "1.1"
_OF_1_0 = {
    (): {"version", "router", "specialists"},
    ("specialists",): {"name", "system", "max_tokens", "temperature"},
}
"""What a document of 1.0 may hold, at its root and in each specialist."""

STEPS = {"1.0": "1.0 -> 1.1: fields that are new have their defaults"}
"""Version -> what bringing it to the next one means, the oldest first."""


def migrations(values: Any) -> tuple[str, ...]:
    """What has to be done to bring a document's values to the current version."""
    version = values.get("version") if isinstance(values, dict) else None
    older = list(STEPS)
    return tuple(STEPS[v] for v in older[older.index(version) :]) if version in STEPS else ()


def migrate(values: Any) -> Any:
    """The values under the current version; the given ones are not changed.

    Raises:
        ValidationError: the version is no version, of another major, or newer than this code;
            or an older document has fields that came later.
    """
    if not isinstance(values, dict) or values.get("version") == CURRENT:
        return values
    if "version" not in values:
        complain([(("version",), f'should be given: version = "{CURRENT}"', None)])
    version = values["version"]
    if version not in STEPS:
        complain([(("version",), _refusal(version), version)])
    complain(list(_too_new(values)))
    return {**values, "version": CURRENT}


def _refusal(version: Any) -> str:
    known = " and ".join((*STEPS, CURRENT))
    parts = version.split(".") if isinstance(version, str) else []
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        return f"should be a text like {CURRENT!r}"
    if parts[0] != CURRENT.partition(".")[0]:
        return f"is of a major that is not known; {known} are"
    return f"is newer than this code reads; {known} are known"


def _too_new(values: dict[str, Any]) -> Iterator[Complaint]:
    from macaron.hcp.document import HCP
    from macaron.hcp.schema import SpecialistConfig

    def of_later(path: Path, table: Any, old: set[str], now: Any) -> Iterator[Complaint]:
        for key in table if isinstance(table, dict) else ():
            if key in now and key not in old:
                yield (*path, key), f'is of HCP {CURRENT}: set version = "{CURRENT}"', table[key]

    yield from of_later((), values, _OF_1_0[()], HCP.model_fields)
    specialists = values.get("specialists")
    for key, table in specialists.items() if isinstance(specialists, dict) else ():
        path = ("specialists", key)
        yield from of_later(path, table, _OF_1_0[("specialists",)], SpecialistConfig.model_fields)
