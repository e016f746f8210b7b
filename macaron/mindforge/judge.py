"""Judge: the contract's gates on the sealed outcomes."""

import pyarrow.parquet as pq

from macaron.contract.verdict import judge as apply_gates
from macaron.files import write_json
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from macaron.mindforge.evaluate import outcomes


def judge(cycle: Cycle, challenger: str, evaluated: Artifact) -> Artifact:
    """The verdict's file; the decision and its reasons are in the facts."""
    contract, champion = cycle.contract(), cycle.inputs.champion
    table = pq.read_table(evaluated.open())
    verdict = apply_gates(
        contract,
        outcomes(contract, table, champion, challenger),
        champion=champion,
        challenger=challenger,
    )
    path = write_json(cycle.dir / "verdict.json", verdict.to_json())
    return Artifact.of(path, decision=verdict.decision, reasons=list(verdict.reasons))
