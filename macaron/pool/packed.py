"""A pair's own copy of the pool: a folder that never changes, whole and proved by its evidence.

tools/pool.json       what can be called, and what was demoted and why
tools/<digest>.json   each of these tools
tools/evidence.jsonl  the events that led there: who saved it, trials, uses, demotions
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.errors import DigestError
from macaron.files import digest_value, read_json, read_jsonl, write_json, write_jsonl
from macaron.pool.candidate import Candidate, candidate_file, read_candidate, write_candidate
from macaron.pool.state import Event, State

INDEX, EVIDENCE = "pool.json", "evidence.jsonl"
SCHEMA = 1


@dataclass(frozen=True)
class Packed:
    """The pool that a pair carries."""

    tools: Mapping[str, Candidate]
    """By name, what can be called."""
    demoted: Mapping[str, Candidate]
    """By digest, what can never be called again."""
    reasons: Mapping[str, str]
    """Digest -> why it was demoted."""
    events: Sequence[Event]

    @property
    def digest(self) -> str:
        """SHA-256 of what can be called and what never can; the evidence is no part of it."""
        return pool_digest({n: t.digest for n, t in self.tools.items()}, list(self.demoted))

    def index(self) -> dict[str, Any]:
        """The value of `pool.json`."""
        return {
            "schema": SCHEMA,
            "tools": {name: tool.digest for name, tool in self.tools.items()},
            "demoted": {
                digest: {"name": tool.name, "reason": self.reasons[digest]}
                for digest, tool in self.demoted.items()
            },
        }


def pool_digest(tools: Mapping[str, str], demoted: Sequence[str]) -> str:
    """SHA-256 of name -> digest of the callable tools, and of the demoted digests."""
    return digest_value({"tools": dict(tools), "demoted": sorted(demoted)})


def write_packed(packed: Packed, folder: Path) -> Path:
    """Writes the pool into a new folder."""
    for tool in (*packed.tools.values(), *packed.demoted.values()):
        write_candidate(folder, tool)
    write_jsonl(folder / EVIDENCE, packed.events)
    write_json(folder / INDEX, packed.index())
    return folder


def load_packed(folder: Path) -> Packed:
    """The pool in a folder, once its files are those of its index and its evidence proves it.

    Raises:
        DigestError: a file is missing, too many or damaged, or the evidence says otherwise.
    """
    path = folder / INDEX
    try:
        index = read_json(path)
        packed = Packed(
            tools={name: read_candidate(folder, d) for name, d in index["tools"].items()},
            demoted={digest: read_candidate(folder, digest) for digest in index["demoted"]},
            reasons={digest: found["reason"] for digest, found in index["demoted"].items()},
            events=tuple(read_jsonl(folder / EVIDENCE)),
        )
        same = index == packed.index()
        proved = _proved(packed)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DigestError(f"no tool pool: {error!r:.100}", where=str(path), mend=_MEND) from error
    _check_files(folder, packed)
    if not same or any(name != tool.name for name, tool in packed.tools.items()):
        raise DigestError("the index is not that of its tools", where=str(path), mend=_MEND)
    if not proved:
        raise DigestError(
            "the evidence does not lead to the index", where=str(folder / EVIDENCE), mend=_MEND
        )
    return packed


def _proved(packed: Packed) -> bool:
    state = State().apply(packed.events)
    reasons = {digest: entry.reason for digest, entry in state.demoted().items()}
    tools = {name: tool.digest for name, tool in packed.tools.items()}
    return state.tools == tools and reasons == dict(packed.reasons)


def _check_files(folder: Path, packed: Packed) -> None:
    kept = (*packed.tools.values(), *packed.demoted.values())
    expected = {INDEX, EVIDENCE, *(candidate_file(folder, tool.digest).name for tool in kept)}
    odd = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} ^ expected
    if odd:
        raise DigestError(
            f"missing or too many: {', '.join(sorted(odd))}", where=str(folder), mend=_MEND
        )


_MEND = "restore the pair with `dvc pull`"
