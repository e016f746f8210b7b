"""Promote: the last, atomic step, and only where the verdict says so."""

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step(retries=2)
def promote(line: Line, cycle: Cycle, verdict: Artifact, record: Artifact) -> Artifact:
    """Moves the champion alias if the challenger was promoted."""
    from macaron.mindforge.promote import promote as run

    promoted = run(cycle, verdict, record)
    line.summary = f"champion is {promoted.facts['champion']}"
    return promoted
