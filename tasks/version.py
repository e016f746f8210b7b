"""Version: the challenger and its lineage in DVC, git and MLflow, whatever the verdict."""

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step(retries=2)
def version(
    line: Line, cycle: Cycle, good: Artifact, trained: Artifact, verdict: Artifact
) -> Artifact:
    """The record: commit, tag, DVC hash, registered version."""
    from macaron.mindforge.version import version as run

    record = run(cycle, good, trained, verdict)
    line.summary = f"tag {record.facts['tag']}, version {record.facts['version']}"
    return record
