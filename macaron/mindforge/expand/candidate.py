"""Candidates: a harness and a few edits of it, held against the schema and the write scope.

A candidate that the contract does not open, or that a person has to look at first, is kept with
its reasons and never played.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from macaron.errors import ConfigError
from macaron.hcp.changes import apply, assign, diff
from macaron.hcp.document import HCP
from macaron.hcp.scope import outside, touched
from macaron.mindforge.expand.slices import slice_of

State = Literal["open", "person", "refused"]
"""May be played; waits for a person; invalid, outside the scope, or no change."""


@dataclass(frozen=True)
class Edit:
    """One field's new value."""

    path: str
    """As `macaron.hcp.paths` has it."""
    value: Any
    """JSON value."""


Edits = tuple[Edit, ...]


@dataclass(frozen=True)
class Candidate:
    """A harness for one specialist's tasks, and how it came about."""

    specialist: str
    edits: Edits
    origin: str
    """What proposed it: base, template:<cause>, mutation, crossover, model."""
    hcp: HCP
    """With the edits made; the base where it is refused."""
    state: State
    reasons: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    """Ids of the candidates that it was made from."""

    @property
    def id(self) -> str:
        """12 hex characters: the slice of the harness that the specialist's tasks depend on."""
        return slice_of(self.hcp, self.specialist)[:12]

    def to_json(self) -> dict[str, Any]:
        """What the record keeps of it."""
        return {
            "id": self.id,
            "specialist": self.specialist,
            "edits": {edit.path: edit.value for edit in self.edits},
            "origin": self.origin,
            "state": self.state,
            "reasons": list(self.reasons),
            "parents": list(self.parents),
        }


def edited(hcp: HCP, edits: Sequence[Edit]) -> HCP:
    """The harness with the edits made in their order.

    Raises:
        ConfigError: an edit has no place in it, or the outcome is no HCP.
    """
    for edit in edits:
        hcp = apply(hcp, assign(hcp, edit.path, edit.value))
    return hcp


def candidate(
    base: HCP,
    specialist: str,
    edits: Sequence[Edit],
    scope: Sequence[str],
    origin: str,
    parents: tuple[str, ...] = (),
) -> Candidate:
    """The candidate of these edits, of which the last one of each path counts.

    Args:
        base: the harness that is searched from.
        specialist: whose tasks it is for.
        edits: in their order.
        scope: the contract's `rewritable`.
        origin: what proposed it.
        parents: ids of the candidates that it was made from.
    """
    last = tuple({edit.path: edit for edit in edits}.values())

    def made(state: State, hcp: HCP, *reasons: str) -> Candidate:
        return Candidate(specialist, last, origin, hcp, state, reasons, parents)

    try:
        after = edited(base, last)
    except ConfigError as error:
        return made("refused", base, str(error))
    changes = diff(base, after)
    if not changes:
        return made("refused", base, "it changes nothing")
    if fields := outside(changes, scope):
        return made("refused", base, *(f"{field} is outside the write scope" for field in fields))
    if sensitive := touched(base, after):
        return made("person", after, *(f"it touches {what}" for what in sensitive))
    return made("open", after)


def unchanged(base: HCP, specialist: str) -> Candidate:
    """The harness as it is."""
    return Candidate(specialist, (), "base", base, "open")
