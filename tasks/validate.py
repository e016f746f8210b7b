"""Validate: Great Expectations on the night's experience; bad rows go to quarantine."""

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step()
def validate(line: Line, cycle: Cycle, collected: Artifact) -> Artifact:
    """The rows that may be learned from, as Parquet."""
    from macaron.mindforge.validate import validate as run

    line.update("expectations")
    good = run(cycle, collected)
    line.summary = f"{good.facts['good']} rows good, {good.facts['quarantined']} quarantined"
    if others := good.facts["other_hcp"]:
        done = "refused" if good.facts["refused"] else "accepted"
        line.summary += f", {others} of another HCP {done}"
    return good
