"""Curate: what validated experience does to the training."""

from pathlib import Path

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step()
def curate(line: Line, cycle: Cycle, good: Artifact, expanded: Artifact) -> Artifact:
    """The training job: steered tasks, examples, routing turns."""
    import pyarrow.parquet as pq

    from macaron.mindforge.curate import curate as run

    expanded.open()
    job = run(cycle, pq.read_table(good.open()), Path(expanded.facts["hcp"]))
    line.summary = f"{job.facts['examples']} examples, tasks steered by failures"
    return job
