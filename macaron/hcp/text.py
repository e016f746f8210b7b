"""HCP documents as TOML text: one spelling per document.

What is written is read again before it is given out, so that no spelling can change a value.
"""

from typing import Any

import tomlkit
from tomlkit.items import Item

from macaron.hcp.document import HCP, parse_hcp


def dump_hcp(hcp: HCP, defaults: bool = False) -> str:
    """The document as TOML; equal documents give equal text.

    Args:
        hcp: the document.
        defaults: whether to write the values that are the defaults as well.
    """
    values = hcp.model_dump(mode="json", exclude_defaults=not defaults)
    return checked(tomlkit.dumps({key: spelled(value) for key, value in values.items()}), hcp)


def checked(text: str, hcp: HCP) -> str:
    """The text, once it reads as the document: a fault of the writer must not become a file."""
    found = parse_hcp(text, "the HCP as written").hcp.digest
    if found != hcp.digest:
        raise AssertionError(f"wrote HCP {hcp.digest[:12]}, read {found[:12]}")
    return text


def spelled(value: Any) -> Any:
    """A JSON value for tomlkit, texts of several lines over several lines."""
    if isinstance(value, dict):
        return {key: spelled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [spelled(part) for part in value]
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str | Item:
    # A reader of TOML may take CRLF in a text over several lines for LF.
    if "\n" not in value or "\r" in value:
        return value
    return tomlkit.string(value, multiline=True)
