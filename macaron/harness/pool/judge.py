"""Who is promoted and who is demoted: the HCP's rules, applied to trials and uses.

A content is tried once. What was demoted is never tried again, however it is
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
        ToolFault: it can't be tried: it is promoted, or failed or was demoted before.
        TrialsInvalid: nothing is known and nothing was recorded.
    """
    with pool.trying() as state:
        entry, tool = state.entries[digest], pool.tool(digest)
        _check_open(state, entry)
        failed = state.failed(tool.name)
        trials, needed = amount(policy, failed)
        report = examiner.examine(tool, trials, needed, "promotion", failed)
        facts = _facts(report) | {"promoted": report.good}
        with pool.writing():
            pool.add("tried", tool, origin, **facts, reason="" if report.good else str(report))
        return report


def _check_open(state: State, entry: Entry) -> None:
    if entry.status == "promoted":
        raise ToolFault(f"{entry.name} is promoted already")
    twins = [other for other in state.of_name(entry.name) if other.shape == entry.shape]
    if any(twin.status == "demoted" for twin in twins):
        raise ToolFault(f"this code was promoted once and demoted; {entry.name} must change")
    if any(twin.status == "failed" for twin in twins):
        raise ToolFault(f"this code failed its trials; {entry.name} must change to be tried again")


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
        examiner: with the references at hand; a tool that they are not for is left alone.
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
            if due and name in known:
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


def demote_by_hand(pool: LivePool, digest: str, reason: str, origin: Origin) -> None:
    """Demotes a candidate or tool because a person says so."""
    with pool.writing():
        pool.add("demoted", pool.tool(digest), origin, reason=reason)


def absorb(
    pool: LivePool, scratch: LivePool, examiner: Examiner, policy: Policy
) -> Mapping[str, Report]:
    """Takes over what a rollout left in a pool of its own, so that rollouts share nothing.

    What was promoted there is tried anew here, under this pool's count of earlier attempts.

    Returns:
        Digest -> report of what was tried.

    Raises:
        TrialsInvalid: a tool's trial could not be judged; those before it are recorded.
    """
    reports = {}
    for event in scratch.events_since_birth():
        origin = Origin(event["session"], event.get("task", ""))
        if event["event"] == "saved":
            pool.save(scratch.tool(event["digest"]), origin)
        elif event["event"] == "tried" and event["promoted"]:
            try:
                report = promote(pool, event["digest"], examiner, policy, origin)
            except ToolFault:
                # Another rollout had the same idea.
                continue
            reports[event["digest"]] = report
    return reports


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
