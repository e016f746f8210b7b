"""Collect: the night's experience."""

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step(retries=1)
def collect(line: Line, cycle: Cycle) -> Artifact:
    """Imported and served turns, and the champion's rollouts, in one Parquet."""
    from macaron.mindforge.collect import collect as run

    line.update("imports, served turns, rollouts of the champion")
    collected = run(cycle)
    facts = collected.facts
    line.summary = f"{facts['waiting']} turns and {facts['rollouts']} rollouts"
    return collected
