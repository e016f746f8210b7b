"""Who is promoted and who is demoted: the HCP's rules, applied to trials and uses.

A content is tried once for its purpose. What was demoted is never tried again, however it is
spelt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from macaron.harness.pool.live import LivePool, Origin
from macaron.harness.pool.trials import Examiner, Policy, Report, amount
from macaron.harness.tools import ToolFault
from macaron.pool.state import Entry, State


@dataclass
class Uses:
    """What became of the tools' calls in one session."""

    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Digest -> calls, raised, faults by kind: as the event has them."""

    def note(self, digest: str, fault: str = "") -> None:
        """Counts one call; the fault's kind where it raised."""
        fresh: dict[str, Any] = {"calls": 0, "raised": 0, "faults": {}}
        use = self.tools.setdefault(digest, fresh)
        use["calls"] += 1
        if fault:
            use["raised"] += 1
            use["faults"][fault] = use["faults"].get(fault, 0) + 1


def promote(
    pool: LivePool, digest: str, examiner: Examiner, policy: Policy, origin: Origin
) -> Report:
    """Tries a candidate and records what came of it; sessions that begin later can call it.

    Raises:
        ToolFault: it can't be tried: it failed or was demoted before, or its name is another's.
        TrialsInvalid: nothing is known and nothing was recorded.
    """
    with pool.trying() as state:
        entry, tool = state.entries[digest], pool.tool(digest)
        _check_open(state, entry)
        failed = state.attempts(tool.purpose)
        trials, needed = amount(policy, failed)
        report = examiner.examine(tool, trials, needed, "promotion", failed)
        facts = _facts(report) | {"promoted": report.good}
        with pool.writing():
            pool.add("tried", tool, origin, **facts, reason="" if report.good else str(report))
        return report


def _check_open(state: State, entry: Entry) -> None:
    if entry.status == "promoted":
        raise ToolFault(f"{entry.name} is promoted already")
    twins = [other for other in state.entries.values() if _same_shape(entry, other)]
    if any(other.status == "demoted" for other in (entry, *twins)):
        raise ToolFault(f"this code was promoted once and demoted; {entry.name} must change")
    if any(other.status == "failed" for other in (entry, *twins)):
        raise ToolFault(f"this code failed its trials; {entry.name} must change to be tried again")
    there = state.tools.get(entry.name)
    if there is not None and state.entries[there].purpose != entry.purpose:
        raise ToolFault(f"{entry.name} is the name of a tool for another purpose; choose another")


def _same_shape(entry: Entry, other: Entry) -> bool:
    same = entry.shape and entry.shape == other.shape
    return bool(same) and entry.purpose == other.purpose and entry is not other


def record_uses(pool: LivePool, uses: Uses, policy: Policy, origin: Origin) -> list[Entry]:
    """Records a session's uses as it ends; returns what they demoted."""
    if not uses.tools:
        return []
    with pool.writing():
        pool.add_event("used", origin, tools=uses.tools)
    return settle(pool, policy, origin)


def retry(
    pool: LivePool, examiner: Examiner, policy: Policy, origin: Origin, *, every: bool = False
) -> Mapping[str, Report]:
    """Tries promoted tools again on fresh references, and demotes those that fail too often.

    Args:
        pool: the pool.
        examiner: with the references at hand; a tool for another purpose is left alone.
        policy: the HCP's.
        origin: who asks.
        every: all of them, not only those that are due: that raised, or were used so often.

    Returns:
        Name -> report of what was tried.

    Raises:
        TrialsInvalid: a tool's trial could not be judged; those before it are recorded.
    """
    known = {purpose.name for purpose in examiner.references.purposes()}
    reports = {}
    with pool.trying() as state:
        for name, digest in sorted(state.tools.items()):
            entry = state.entries[digest]
            due = every or entry.raised > 0 or entry.calls >= policy.retrial_uses
            if due and entry.purpose in known:
                reports[name] = _retry_one(pool, entry, examiner, policy, origin)
    settle(pool, policy, origin)
    return reports


def _retry_one(
    pool: LivePool, entry: Entry, examiner: Examiner, policy: Policy, origin: Origin
) -> Report:
    tool = pool.tool(entry.digest)
    occasion = ("re-trial", entry.retrials, entry.tried)
    report = examiner.examine(tool, policy.trials, policy.passes, *occasion)
    with pool.writing():
        pool.add("retried", tool, origin, **_facts(report))
    return report


def settle(pool: LivePool, policy: Policy, origin: Origin) -> list[Entry]:
    """Demotes what the rules say; returns it. Again, it finds nothing to do."""
    demoted = []
    with pool.writing() as state:
        for digest in list(state.tools.values()):
            entry = state.entries[digest]
            reason = _reason(entry, policy)
            if reason:
                pool.add("demoted", pool.tool(digest), origin, reason=reason)
                demoted.append(entry)
    return demoted


def _reason(entry: Entry, policy: Policy) -> str:
    """Why a tool is to be demoted; empty where it is not."""
    if entry.failing_retrials >= policy.demote_after:
        last = next(e for e in reversed(entry.events) if e["event"] == "retried" and _failed(e))
        return f"a re-trial on fresh references {_report(last)}"
    if entry.streak >= policy.demote_sessions:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(entry.faults.items()))
        return f"every use raised in {entry.streak} sessions in a row ({kinds})"
    return ""


def _failed(event: Mapping[str, Any]) -> bool:
    return bool(event["passed"] < event["needed"])


def _report(event: Mapping[str, Any]) -> Report:
    return Report(*(event[key] for key in ("seed", "trials", "needed", "passed", "faults")))


def _facts(report: Report) -> dict[str, Any]:
    return vars(report) | {"faults": dict(report.faults)}
