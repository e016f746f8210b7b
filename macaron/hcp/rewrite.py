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
    try:
        after = apply(hcp, changes)
    except ConfigError as error:
        return _refused(hcp, hcp, changes, ledger, [str(error)], why)
    actual = diff(hcp, after)
    if not actual:
        return _refused(hcp, after, changes, ledger, ["it changes nothing"], why)
    if fields := outside(actual, scope):
        reasons = [f"{field} is outside the write scope" for field in fields]
        return _refused(hcp, after, actual, ledger, reasons, why)
    if sensitive := touched(hcp, after):
        return _reviewed(hcp, after, actual, ledger, sensitive, why)
    return _applied(hcp, after, actual, ledger, [], why)


def rewrite_id(before: HCP, after: HCP) -> str:
    """The name of a rewrite: the same documents give the same."""
    return digest_value([before.digest, after.digest])[:12]


def _refused(
    hcp: HCP,
    after: HCP,
    changes: Sequence[Change],
    ledger: Ledger,
    reasons: Sequence[str],
    why: str,
) -> Rewrite:
    name = rewrite_id(hcp, after)
    ledger.append("refused", name, **_facts(hcp, after, changes, reasons, why))
    return Rewrite(name, "refused", tuple(reasons), hcp)


def _reviewed(
    hcp: HCP,
    after: HCP,
    changes: Sequence[Change],
    ledger: Ledger,
    sensitive: Sequence[str],
    why: str,
) -> Rewrite:
    name = rewrite_id(hcp, after)
    if approval := ledger.find(name, "approved"):
        reason = f"approved by {approval.facts['who']} at {approval.at}"
        return _applied(hcp, after, changes, ledger, [reason], why)
    reasons = [f"it touches {what}" for what in sensitive]
    if ledger.find(name, "needs-review") is None:
        # The document first: a record without it could never be approved.
        text = dump_hcp(after)
        write_atomic(ledger.document(name), text)
        facts = _facts(hcp, after, changes, reasons, why)
        ledger.append("needs-review", name, document=digest_bytes(text.encode()), **facts)
    return Rewrite(name, "needs-review", tuple(reasons), hcp)


def _applied(
    hcp: HCP,
    after: HCP,
    changes: Sequence[Change],
    ledger: Ledger,
    reasons: Sequence[str],
    why: str,
) -> Rewrite:
    name = rewrite_id(hcp, after)
    ledger.append("applied", name, **_facts(hcp, after, changes, reasons, why))
    return Rewrite(name, "applied", tuple(reasons), after)


def _facts(
    hcp: HCP, after: HCP, changes: Sequence[Change], reasons: Sequence[str], why: str
) -> dict[str, object]:
    return {
        "before": hcp.digest,
        "after": after.digest,
        "changes": [change.to_json() for change in changes],
        "reasons": list(reasons),
        "why": why,
    }
