"""Writes the reference of HCP's fields into docs/hcp.md from the schema itself.

`--check` changes nothing and fails if the page is out of date.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from macaron.hcp.document import HCP
from scripts.page import refresh

PAGE = Path(__file__).resolve().parent.parent / "docs" / "hcp.md"
BEGIN = "<!-- fields: made by scripts/hcp_reference.py -->\n"
END = "<!-- end of fields -->\n"
WORDS: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}
LIMITS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def reference() -> str:
    """The table of all fields, as Markdown."""
    lines = ["| field | type | default | what |", "|---|---|---|---|"]
    return "\n".join([*lines, *_rows(HCP, "")]) + "\n"


def _rows(kind: type[BaseModel], above: str) -> Iterator[str]:
    for name, field in kind.model_fields.items():
        section, place = _section(field.annotation)
        path = f"{above}{name}{place}"
        if section is None:
            yield f"| `{path}` | {_type(field)} | {_default(field)} | {field.description} |"
        else:
            yield f"| **`{path}`** | | | {field.description} |"
            yield from _rows(section, f"{path}.")


def _section(kind: Any) -> tuple[type[BaseModel] | None, str]:
    """The section that a field holds, and what stands between its path and its fields'."""
    inner = get_args(kind)
    if get_origin(kind) is dict and _is_section(inner[-1]):
        return inner[-1], ".<name>"
    if get_origin(kind) is tuple and _is_section(inner[0]):
        return inner[0], ".<number>"
    return (kind, "") if _is_section(kind) else (None, "")


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _type(field: FieldInfo) -> str:
    kind = field.annotation
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if get_origin(kind) is tuple:
        return "array of texts"
    if get_origin(kind) is dict:
        return "table"
    limits = [
        f"{sign} {value:g}"
        for name, sign in LIMITS.items()
        for limit in field.metadata
        if (value := getattr(limit, name, None)) is not None
    ]
    return " ".join([WORDS[kind], *limits])


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return "`[]`" if field.default == () else f"`{field.default!r}`".replace("'", '"')


if __name__ == "__main__":
    sys.exit(refresh(PAGE, BEGIN, END, reference(), __file__))
