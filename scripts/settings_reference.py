"""Writes the settings' reference into docs/ops.md from the settings themselves.

`--check` changes nothing and fails if the page is out of date.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from macaron.profile import Section
from macaron.settings import PREFIX, Settings
from scripts.page import refresh

PAGE = Path(__file__).resolve().parent.parent / "docs" / "ops.md"
BEGIN = "<!-- settings: made by scripts/settings_reference.py -->\n"
END = "<!-- end of settings -->\n"


def reference() -> str:
    """The table of all settings, as Markdown."""
    lines = ["| key | variable | default | what |", "|---|---|---|---|"]
    lines += _rows(Settings.model_fields, ())
    return "\n".join(lines) + "\n"


def _rows(fields: dict[str, FieldInfo], above: tuple[str, ...]) -> Iterator[str]:
    for name, field in fields.items():
        path = (*above, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from _rows(field.annotation.model_fields, path)
            continue
        key = "" if path == ("root",) else f"`{'.'.join(path)}`"
        default = "" if path == ("root",) else f"`{field.default!r}`".replace("'", '"')
        variable = PREFIX + "__".join(path).upper()
        yield f"| {key} | `{variable}` | {default} | {field.description} |"


if __name__ == "__main__":
    sys.exit(refresh(PAGE, BEGIN, END, reference(), __file__))
