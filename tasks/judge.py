"""Judge: the contract's gates."""

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step()
def judge(line: Line, cycle: Cycle, trained: Artifact, evaluated: Artifact) -> Artifact:
    """The verdict file; the decision is in the facts."""
    from macaron.mindforge.judge import judge as run

    verdict = run(cycle, trained.facts["challenger"], evaluated)
    line.summary = verdict.facts["decision"]
    return verdict
