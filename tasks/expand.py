"""Expand: what another harness makes of the frozen champion."""

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step()
def expand(line: Line, cycle: Cycle) -> Artifact:
    """The harness of the challenger; its file is in the facts."""
    from macaron.mindforge.expand.step import expand as run

    made = run(cycle)
    if made.facts["left_out"]:
        line.summary = "left out: the profile gives it no attempts"
    else:
        line.summary = (
            f"{made.facts['covered']} of {made.facts['failures']} failures covered, "
            f"{len(made.facts['accepted'])} rewrites accepted"
        )
    return made
