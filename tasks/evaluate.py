"""Evaluate: champion and challenger on sealed items."""

from pathlib import Path

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step(retries=1)
def evaluate(line: Line, cycle: Cycle, trained: Artifact) -> Artifact:
    """The trajectories of every sealed item under both pairs, as Parquet."""
    from macaron.mindforge.evaluate import evaluate as run

    line.update("sealed items under both pairs")
    trained.open()
    probes = {revision: Path(path) for revision, path in trained.facts["probes"].items()}
    evaluated = run(cycle, trained.facts["challenger"], probes)
    line.summary = f"{evaluated.facts['items']} answers to sealed items"
    return evaluated
