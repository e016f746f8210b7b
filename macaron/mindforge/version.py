"""Version: the judged challenger into the record, whatever the verdict."""

from pathlib import Path

from macaron.contract.verdict import Verdict
from macaron.files import read_json, write_json
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.collect import BANK
from macaron.mindforge.cycle import Cycle
from macaron.mindforge.record import Record, record_pair
from macaron.mindforge.stores import pair_store, tracking
from macaron.mindforge.train import run_params, run_tags


def version(cycle: Cycle, good: Artifact, trained: Artifact, verdict: Artifact) -> Artifact:
    """Commit, tag, DVC hash and registered version are in the facts."""
    settings, judged = cycle.settings(), _verdict(verdict)
    cycle.contract()
    store, registry = pair_store(settings), tracking(settings, cycle.inputs.model_name)
    pair = store.get(trained.facts["challenger"])
    store.attach_verdict(pair.id, judged)
    recorded = record_pair(
        settings,
        registry,
        Record(
            cycle=cycle.id,
            pair=pair,
            verdict=judged.decision,
            code=cycle.inputs.code,
            files=(Path(cycle.inputs.contract), settings.path(BANK), good.open()),
            params=run_params(cycle) | {"contract": judged.contract_digest},
            tags=run_tags(cycle),
            metrics=judged.metrics(),
        ),
    )
    registry.log_verdict(recorded.run, judged)
    facts = {"commit": recorded.commit, "tag": recorded.tag, "version": recorded.version}
    path = write_json(cycle.dir / "record.json", facts | {"run": recorded.run})
    return Artifact.of(path, run=recorded.run, **facts)


def _verdict(artifact: Artifact) -> Verdict:
    path = artifact.open()
    return Verdict.from_json(read_json(path), str(path))
