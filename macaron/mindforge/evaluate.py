"""Evaluate: champion and challenger on the same sealed items, which no training has seen.

The items' seed depends on the challenger's digest, so that they do not exist before it does.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from macaron.contract.document import Contract, Suite
from macaron.contract.verdict import Outcome, SuiteOutcomes
from macaron.environments.bank import sealed
from macaron.environments.base import Task
from macaron.files import atomic_path
from macaron.hcp.document import load_hcp
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.collect import pool
from macaron.mindforge.cycle import Cycle, seed_of
from macaron.mindforge.rollout import Request, run
from macaron.pair import HCP_FILE

if TYPE_CHECKING:
    import pyarrow as pa


def evaluate(cycle: Cycle, challenger: str, probes: Mapping[str, Path]) -> Artifact:
    """One Parquet with the trajectory of every sealed item under both pairs.

    Args:
        cycle: the running cycle.
        challenger: id of its pair.
        probes: adapter revision -> file of its landing proof.

    Raises:
        TrainingError: an adapter that was loaded is not the one that was trained.
    """
    import pyarrow.parquet as pq

    contract, settings = cycle.contract(), cycle.settings()
    requests = [
        _request(settings.pairs / pair, suite, items)
        for suite, items in sealed_items(contract, cycle.inputs.champion, challenger).items()
        for pair in (cycle.inputs.champion, challenger)
    ]
    table = run(pool(cycle, probes), requests, cycle.dir / "evaluation")
    out = cycle.dir / "evaluation" / "sealed.parquet"
    with atomic_path(out) as temporary:
        pq.write_table(table, temporary)
    return Artifact.of(out, items=table.num_rows)


def sealed_items(contract: Contract, champion: str, challenger: str) -> dict[Suite, list[Task]]:
    """Fresh items for every suite of the contract."""
    return {
        suite: sealed(
            suite.environment, suite.items, seed_of(contract.seed, champion, challenger, suite.name)
        )
        for suite in contract.suites
    }


def _request(pair: Path, suite: Suite, items: list[Task]) -> Request:
    temperature = load_hcp(pair / HCP_FILE).specialists[suite.specialist].temperature
    return Request(pair, suite.environment, items, temperature, seed_of(suite.name))


def outcomes(
    contract: Contract, table: "pa.Table", champion: str, challenger: str
) -> dict[str, SuiteOutcomes]:
    """Per suite, which items passed under which pair; None where the verifier failed."""
    passed: dict[tuple[str, str], dict[str, bool | None]] = {}
    columns = ("pair", "environment", "session", "reward", "reward_valid")
    for row in table.select(columns).to_pylist():
        result = row["reward"] >= 1.0 if row["reward_valid"] else None
        passed.setdefault((row["pair"], row["environment"]), {})[row["session"]] = result

    def of(pair: str, suite: Suite) -> list[Outcome]:
        return sorted(passed.get((pair, suite.environment), {}).items())

    return {s.name: SuiteOutcomes(of(champion, s), of(challenger, s)) for s in contract.suites}
