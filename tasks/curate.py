"""Curate: what validated experience does to the training."""

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step()
def curate(line: Line, cycle: Cycle, good: Artifact) -> Artifact:
    """The training job: steered tasks, examples, routing turns."""
    import pyarrow.parquet as pq

    from macaron.mindforge.curate import curate as run

    job = run(cycle, pq.read_table(good.open()))
    line.summary = f"{job.facts['examples']} examples, tasks steered by failures"
    return job
