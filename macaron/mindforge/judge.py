"""Judge: the contract's gates on the sealed outcomes."""

import pyarrow.parquet as pq

from macaron.contract.verdict import Verdict
from macaron.contract.verdict import judge as apply_gates
from macaron.files import write_json
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from macaron.mindforge.evaluate import outcomes
from macaron.mindforge.stores import pair_store


def judge(cycle: Cycle, challenger: str, evaluated: Artifact) -> Artifact:
    """The verdict's file; the decision and its reasons are in the facts.

    A pair is judged once: where training ends in one that was judged on an earlier night, the
    verdict it has stands. Judged until it passes, it would pass by luck.
    """
    verdict = _earlier(cycle, challenger) or _judge(cycle, challenger, evaluated)
    path = write_json(cycle.dir / "verdict.json", verdict.to_json())
    return Artifact.of(path, decision=verdict.decision, reasons=list(verdict.reasons))


def _earlier(cycle: Cycle, challenger: str) -> Verdict | None:
    return pair_store(cycle.settings()).verdict(challenger)


def _judge(cycle: Cycle, challenger: str, evaluated: Artifact) -> Verdict:
    contract, champion = cycle.contract(), cycle.inputs.champion
    table = pq.read_table(evaluated.open())
    return apply_gates(
        contract,
        outcomes(contract, table, champion, challenger),
        champion=champion,
        challenger=challenger,
    )
