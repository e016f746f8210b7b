"""One check's result; a fault of the user's is a result too, and never stops the others."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from macaron.errors import MacaronError


@dataclass(frozen=True)
class Check:
    """One line of the doctor's."""

    name: str
    level: Literal["ok", "warn", "fail"]
    fact: str
    """What was found."""
    mend: str = ""
    """What to do about it."""


def ok(name: str, fact: str) -> Check:
    """All is well."""
    return Check(name, "ok", fact)


def warn(name: str, fact: str, mend: str = "") -> Check:
    """A cycle runs, with less than it could have."""
    return Check(name, "warn", fact, mend)


def fail(name: str, fact: str, mend: str = "") -> Check:
    """A cycle cannot run."""
    return Check(name, "fail", fact, mend)


def guarded(name: str, check: Callable[[], Check]) -> Iterator[Check]:
    """The check, or its fault as a failed one."""
    try:
        yield check()
    except MacaronError as error:
        where = f"{error.where}: " if error.where else ""
        yield fail(name, f"{where}{error.what}", error.mend)
