"""Our own verification of one pair: every copy and every claim against the hashes of its record.

DVC notices neither a flipped byte in its cache nor a changed dependency of a frozen stage; this
does. It reads, and changes nothing.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from macaron.errors import MacaronError
from macaron.registry import checks
from macaron.registry.checks import Case, Faults
from macaron.registry.lineage import Lineage
from macaron.registry.pairs import PairStore
from macaron.registry.tracking import Tracking
from macaron.registry.workspace import PAIRS


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    ok: bool
    text: str
    """What was checked, or where and how it differs."""

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else 'FAIL'}  {self.text}"


def audit(
    pair_id: str, pairs: PairStore, lineage: Lineage, tracking: Tracking | None = None
) -> list[Finding]:
    """Checks one pair everywhere it is kept; a line a check, or a line a fault.

    Args:
        pair_id: the pair.
        pairs: the folder that the running system uses.
        lineage: git and DVC.
        tracking: MLflow; None leaves it out.
    """
    try:
        record = lineage.find(pair_id)
        if record is None:
            return [Finding(False, f"git: there is no tag pair/{pair_id} that can be read")]
        case = Case(pair_id, record, lineage.lock(pair_id), pairs, lineage)
    except (MacaronError, ValueError) as error:
        return [Finding(False, f"git: {error}")]
    todo = [
        ("git: commit, trees and files are what their names say", checks.git_objects(case)),
        ("git: the commit's parents are the parent pair and the code", checks.family(case)),
        ("git: the lock agrees with the files beside it", checks.lock_and_files(case)),
        (f"pair: {PAIRS}/{pair_id} is what was recorded", checks.folder(case)),
        ("DVC remote: the pair and its evidence are whole", checks.remote(case)),
        ("workspace: its copies are whole", checks.workspace(case)),
        ("verdict: of this pair, under the recorded contract", checks.verdict(case)),
    ]
    if pairs.has_pool(pair_id):
        todo.append(("pool: every tool passed its trials", checks.pool(case)))
    if tracking is not None:
        todo.append(
            ("MLflow: version, tags, numbers and artifacts agree", checks.mlflow(case, tracking))
        )
    return [finding for title, faults in todo for finding in _findings(title, faults)]


def _findings(title: str, faults: Faults) -> list[Finding]:
    found = []
    try:
        for fault in faults:
            found.append(Finding(False, fault))
    except (MacaronError, OSError, ValueError) as error:
        # A copy so broken that it cannot be read is a fault like any other.
        found.append(Finding(False, f"{title.partition(':')[0]}: {error}"))
    return found or [Finding(True, title)]


def main(arguments: Sequence[str]) -> int:
    """`python -m macaron.registry.audit PAIR...`: 0 when nothing differs."""
    from macaron.settings import load_settings

    settings = load_settings()
    pairs = PairStore(settings.pairs)
    lineage = Lineage(settings.root, settings.path(settings.stores.workspace), settings.dvc_remote)
    artifacts = settings.state / "mlflow" / "artifacts"
    tracking = Tracking(settings.mlflow_uri, settings.model_name, artifacts)
    found = [f for name in arguments for f in audit(pairs.resolve(name), pairs, lineage, tracking)]
    for finding in found:
        print(finding)
    return 0 if found and all(finding.ok for finding in found) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except MacaronError as error:
        sys.exit(f"error: {error}")
