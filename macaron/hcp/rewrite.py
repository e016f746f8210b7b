"""Rewrites of the harness that the loop proposes: applied, refused, or kept for a person.

Nothing outside the contract's write scope is ever applied, and nothing sensitive without a
person's approval of exactly that rewrite. Every proposal is recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from macaron.errors import ConfigError
from macaron.files import digest_bytes, digest_value, write_atomic
from macaron.hcp.changes import Change, apply, diff
from macaron.hcp.document import HCP
from macaron.hcp.ledger import Ledger
from macaron.hcp.scope import outside, touched
from macaron.hcp.text import dump_hcp

Decision = Literal["applied", "refused", "needs-review"]


@dataclass(frozen=True)
class Rewrite:
    """What came of a proposal."""

    id: str
    """12 hex characters over the documents before and after."""
    decision: Decision
    reasons: tuple[str, ...]
    """Why it was not simply applied; or whose approval let it."""
    hcp: HCP
    """The new document where it was applied, else the old one."""


def propose(
    hcp: HCP, changes: Sequence[Change], scope: Sequence[str], ledger: Ledger, why: str = ""
) -> Rewrite:
    """Applies changes to a harness as far as the loop may, and records what came of it.

    Args:
        hcp: the document as it is.
        changes: what to change in it.
        scope: the contract's `rewritable`.
        ledger: where it is recorded.
        why: the loop's reason, for whoever reviews it.
    """
    proposal = _Proposal(hcp, hcp, tuple(changes), ledger, why)
    try:
        after = apply(hcp, changes)
    except ConfigError as error:
        return proposal.refused(str(error))
    proposal = _Proposal(hcp, after, tuple(diff(hcp, after)), ledger, why)
    if not proposal.changes:
        return proposal.refused("it changes nothing")
    if fields := outside(proposal.changes, scope):
        return proposal.refused(*(f"{field} is outside the write scope" for field in fields))
    if sensitive := touched(hcp, after):
        return proposal.reviewed(*(f"it touches {what}" for what in sensitive))
    return proposal.applied()


@dataclass(frozen=True)
class _Proposal:
    """Two documents, what differs between them, and where it is recorded."""

    before: HCP
    after: HCP
    changes: tuple[Change, ...]
    ledger: Ledger
    why: str

    @property
    def id(self) -> str:
        return digest_value([self.before.digest, self.after.digest])[:12]

    def refused(self, *reasons: str) -> Rewrite:
        return self._record("refused", reasons, self.before)

    def applied(self, *reasons: str) -> Rewrite:
        return self._record("applied", reasons, self.after)

    def reviewed(self, *reasons: str) -> Rewrite:
        if approval := self.ledger.find(self.id, "approved"):
            return self.applied(f"approved by {approval.facts['who']} at {approval.at}")
        # The document first: a record without it could never be approved.
        text = dump_hcp(self.after)
        write_atomic(self.ledger.document(self.id), text)
        if self.ledger.find(self.id, "needs-review"):
            return Rewrite(self.id, "needs-review", reasons, self.before)
        document = digest_bytes(text.encode())
        return self._record("needs-review", reasons, self.before, document=document)

    def _record(
        self, decision: Decision, reasons: tuple[str, ...], hcp: HCP, **facts: str
    ) -> Rewrite:
        self.ledger.append(
            decision,
            self.id,
            before=self.before.digest,
            after=self.after.digest,
            changes=[change.to_json() for change in self.changes],
            reasons=list(reasons),
            why=self.why,
            **facts,
        )
        return Rewrite(self.id, decision, reasons, hcp)
