"""What commands print: for a person on a terminal, plain and complete where it is piped."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def print_json(value: Any) -> None:
    """One JSON value, for scripts."""
    print(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on a terminal; tab-separated lines under a header where it is piped."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print("\t".join(row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Aligned lines of a name and what is so."""
    rows = list(facts)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        shown = f"\033[1m{name:<{width}}\033[0m" if sys.stdout.isatty() else f"{name:<{width}}"
        print(f"{shown}  {value}")


def amount(number: float, unit: str, plural: str = "") -> str:
    """A count with its unit: 1 turn, 1,200 turns."""
    return f"{number:,} {unit if number == 1 else plural or unit + 's'}"
