"""Train: one DeepSpeed launch for all specialists; its lines reach the run's log and MLflow."""

from typing import Any

from prefect.logging import get_run_logger

from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line
from tasks.step import step


@step(retries=1)
def train(line: Line, cycle: Cycle, job: Artifact) -> Artifact:
    """The challenger: its id and the training's summaries are in the facts."""
    from macaron.mindforge.train import train as run

    log = get_run_logger()

    def show(event: dict[str, Any], share: float) -> None:
        log.info("%s", event)
        if event["event"] == "step":
            step = f"{event['specialist']} step {event['step']}/{event['steps']}"
            line.update(f"{step}, reward {event['reward']:.2f}", share)

    trained = run(cycle, job, show)
    line.summary = f"challenger {trained.facts['challenger']}"
    return trained
