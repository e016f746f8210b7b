"""Slices: the part of a harness that one specialist's tasks depend on.

Two harnesses with the same slice give the same attempt at the same task and seed, so that a change
to one specialist reruns nothing of the others.
"""

from collections.abc import Iterable
from typing import Any

from macaron.files import digest_value
from macaron.hcp.document import HCP
from macaron.hcp.schema import HookConfig

_SHARED = ("memory", "session", "workspace", "pool")
"""Sections that every specialist's turns depend on."""


def slice_of(hcp: HCP, specialist: str) -> str:
    """SHA-256 of the values that a turn of the specialist can depend on.

    The router is not among them: an attempt's specialist is its task's.
    """
    config = hcp.specialists[specialist]
    values: dict[str, Any] = {
        "specialist": config.model_dump(mode="json"),
        "tools": {name: hcp.tools[name].model_dump(mode="json") for name in config.tools},
        "skills": {name: hcp.skills[name].model_dump(mode="json") for name in config.skills},
        "mcp": {name: part.model_dump(mode="json") for name, part in hcp.mcp.items()},
        # Whom else a hook is for makes no difference to this one.
        "hooks": [
            hook.model_dump(mode="json", exclude={"specialists"})
            for hook in hooks_of(hcp, specialist)
        ],
        **{name: getattr(hcp, name).model_dump(mode="json") for name in _SHARED},
    }
    return digest_value(values)


def hooks_of(hcp: HCP, specialist: str) -> list[HookConfig]:
    """The hooks that are asked in the specialist's turns."""
    return [hook for hook in hcp.hooks if not hook.specialists or specialist in hook.specialists]


def affected(old: HCP, new: HCP, specialists: Iterable[str]) -> list[str]:
    """The specialists whose tasks have to be played again."""
    return [key for key in specialists if slice_of(old, key) != slice_of(new, key)]
