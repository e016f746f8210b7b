"""Begin: settles what the cycle is made from, and makes the ancestor pair if there is none."""

from prefect import task

from macaron.mindforge.begin import begin as begin_cycle
from macaron.mindforge.cycle import Cycle, Options
from macaron.settings import load_settings
from tasks.console import progress


@task(name="begin")
def begin(options: Options) -> Cycle:
    """The unfinished cycle with the same inputs, or a new one."""
    settings = load_settings()
    progress.remember(settings.state / "durations.json")
    with progress.step("begin") as line:
        cycle = begin_cycle(settings, options)
        line.summary = f"cycle {cycle.id}, champion {cycle.inputs.champion}"
    return cycle
