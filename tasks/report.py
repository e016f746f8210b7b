"""Report: what happened, for people; the last step of every judged cycle."""

from prefect import task

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import console, progress


@task(name="report")
def report(
    cycle: Cycle,
    collected: Artifact,
    good: Artifact,
    job: Artifact,
    trained: Artifact,
    verdict: Artifact,
    record: Artifact,
    promoted: Artifact,
) -> dict[str, str]:
    """Writes the report, shows its table, and ends the cycle."""
    from prefect.artifacts import create_markdown_artifact

    from macaron.mindforge.report import Night, publish, table, write

    night = Night(cycle, collected, good, job, trained, verdict, record, promoted, progress.seconds)
    with progress.step("report") as line:
        path = write(night)
        publish(night, path)
        create_markdown_artifact(path.read_text(), key="macaron-report", description=cycle.id)
        line.summary = str(path.relative_to(cycle.root))
    console.print(table(night))
    decision: str = verdict.facts["decision"]
    cycle.update(state=decision, ended=night.ended, report=str(path))
    return {"decision": decision, "cycle": cycle.id, "champion": promoted.facts["champion"]}
