"""A candidate: one function that a model wrote, named by the digest of all that it is.

Two candidates of the same content are the same candidate, whoever saved them; one that was changed
is another.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from macaron.errors import DigestError
from macaron.files import digest_value, read_json, write_json

SUFFIX = ".json"


@dataclass(frozen=True)
class Candidate:
    """What a tool is: no word of who made it, and none of how it did."""

    name: str
    """Of the function, and what it is called by; also what it claims to do, since references are
    offered under a name."""
    description: str
    """What a model reads of it."""
    parameters: Mapping[str, Any]
    """JSON Schema of an object: its arguments."""
    source: str
    """Python source of one function; LF line ends, one at the end."""
    calls: tuple[str, ...] = ()
    """Names of the session's tools that it calls, in order."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, hex, 64 characters."""
        return digest_value(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The file's value."""
        return asdict(self) | {"calls": list(self.calls)}

    @classmethod
    def from_json(cls, value: Any, where: str) -> "Candidate":
        """The candidate in a file.

        Raises:
            DigestError: a key is missing or unknown, or a value is of another type.
        """
        kinds: dict[str, type] = {field.name: str for field in fields(cls)}
        kinds |= {"parameters": dict, "calls": list}
        if not isinstance(value, dict) or set(value) != set(kinds):
            raise DigestError("is no tool: its keys are wrong", where=where)
        wrong = [key for key, kind in kinds.items() if not isinstance(value[key], kind)]
        if wrong:
            raise DigestError(f"is no tool: {', '.join(wrong)} of the wrong type", where=where)
        return cls(**{**value, "calls": tuple(value["calls"])})


def candidate_file(folder: Path, digest: str) -> Path:
    """Where a folder keeps a candidate."""
    return folder / f"{digest}{SUFFIX}"


def write_candidate(folder: Path, candidate: Candidate) -> Path:
    """Writes the candidate under its digest; one that is there is left alone."""
    path = candidate_file(folder, candidate.digest)
    return path if path.exists() else write_json(path, candidate.to_json())


def read_candidate(folder: Path, digest: str) -> Candidate:
    """The candidate of that digest.

    Raises:
        DigestError: it is missing, is no candidate, or is another one.
    """
    path = candidate_file(folder, digest)
    try:
        candidate = Candidate.from_json(read_json(path), str(path))
    except FileNotFoundError as error:
        raise DigestError("the tool is missing", where=str(path), mend=_MEND) from error
    except ValueError as error:
        raise DigestError(f"is not JSON: {error}", where=str(path), mend=_MEND) from error
    if candidate.digest != digest:
        raise DigestError(f"holds tool {candidate.digest[:12]}", where=str(path), mend=_MEND)
    return candidate


_MEND = "restore the pair with `dvc pull`; a live pool's own file can only be removed"
