"""Train: runs the job and puts the challenger together from adapters that landed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from macaron.environments import references
from macaron.errors import TrainingError
from macaron.files import write_json
from macaron.harness.pool.carry import carry
from macaron.harness.pool.judge import retry
from macaron.harness.pool.live import Origin
from macaron.harness.pool.trials import Examiner
from macaron.harness.sandbox import shared_sandbox
from macaron.hcp.document import load_hcp
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from macaron.mindforge.stores import live_pool, pair_store, tracking
from macaron.mint.job import TrainingJob, load_job
from macaron.mint.launch import train as launch
from macaron.mint.result import PROBE
from macaron.pair import HCP_FILE
from macaron.pool.packed import INDEX

Show = Callable[[dict[str, Any], float], None]
"""Gets each event and the share of all steps that are done."""

FLUSH = 5
"""Steps between writes to MLflow; a write takes tens of milliseconds."""


def train(cycle: Cycle, job: Artifact, show: Show) -> Artifact:
    """The training's summaries; the challenger's id and generation are in the facts.

    Raises:
        TrainingError: training stopped, or an adapter did not move or land.
    """
    settings, path = cycle.settings(), job.open()
    work = load_job(path)
    registry = tracking(settings, cycle.inputs.model_name)
    curves = Curves(registry, cycle, work, show)
    results = launch(path, curves, cycle.dir / "training" / "train.log")
    curves.flush()
    store = pair_store(settings)
    champion = store.get(cycle.inputs.champion)
    challenger = store.create(
        cycle.inputs.base_digest,
        {key: result.adapter for key, result in results.items()},
        Path(work.hcp),
        parent=champion.id,
        generation=champion.generation + 1,
        tools=_helpers(cycle),
    )
    if challenger.id == champion.id:
        raise TrainingError(
            "no adapter moved: there was nothing to learn from",
            where=str(path),
            mend="give it experience with corrections, or tasks that it solves now and then",
        )
    cycle.update(challenger=challenger.id)
    summaries = {key: result.summary for key, result in results.items()}
    out = write_json(cycle.dir / "training" / "result.json", summaries)
    probes = {
        result.revision: str(Path(result.folder) / PROBE)
        for result in results.values()
        if result.moved
    }
    return Artifact.of(
        out,
        challenger=challenger.id,
        generation=challenger.generation,
        probes=probes,
        summaries=summaries,
    )


def _helpers(cycle: Cycle) -> Path | None:
    """The helpers that the champion's sessions left, tried once more, for the challenger."""
    settings, champion = cycle.settings(), cycle.inputs.champion
    folder = cycle.dir / "tools"
    if (folder / INDEX).exists():
        # Packed before a kill: another trial could pack another pool.
        return folder
    pool = live_pool(settings, champion)
    hcp = load_hcp(settings.pairs / champion / HCP_FILE)
    examiner = Examiner(references(), shared_sandbox(), cycle.seed("helpers"))
    retry(pool, examiner, hcp.pool, Origin(cycle.id), every=True)
    shutil.rmtree(folder, ignore_errors=True)
    return carry(pool, folder)


class Curves:
    """Shows each event, and writes the steps to one MLflow run a specialist."""

    def __init__(self, registry: Any, cycle: Cycle, job: TrainingJob, show: Show) -> None:
        self._registry, self._show = registry, show
        self._steps = job.grpo.steps
        self._total = self._steps * len(job.specialists)
        self._run = registry.cycle_run(cycle.id, run_params(cycle), run_tags(cycle))
        self._params = job.grpo.model_dump() | job.lora.model_dump()
        self._waiting: list[dict[str, Any]] = []
        self._done = self._before = 0

    def __call__(self, event: dict[str, Any]) -> None:
        """Takes one event of the training process."""
        if event["event"] == "specialist":
            self._before = (event["index"] - 1) * self._steps
        if event["event"] == "step":
            self._waiting.append(event)
            self._done = self._before + event["step"]
        if event["event"] == "landed" or len(self._waiting) >= FLUSH:
            self.flush()
        self._show(event, self._done / self._total)

    def flush(self) -> None:
        """Writes what waits."""
        for key in sorted({event["specialist"] for event in self._waiting}):
            run = self._registry.specialist_run(self._run, key, self._params)
            self._registry.log_steps(run, [e for e in self._waiting if e["specialist"] == key])
        self._waiting = []


def run_params(cycle: Cycle) -> dict[str, Any]:
    """What analysts compare cycles by."""
    inputs = cycle.inputs
    return {
        "profile": inputs.profile.name,
        "base": Path(inputs.base).name,
        "seed": inputs.seed,
        "attempt": inputs.attempt,
        "champion": inputs.champion,
    }


def run_tags(cycle: Cycle) -> dict[str, str]:
    """What auditors look runs up by."""
    inputs = cycle.inputs
    return {
        "base_digest": inputs.base_digest,
        "contract": inputs.contract_digest,
        "hcp": inputs.hcp_digest,
    }
