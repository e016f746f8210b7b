"""Begin: settles what the cycle is made from, and makes the ancestor pair if there is none."""

from prefect import task
from prefect.runtime import flow_run

from macaron.harness.sandbox import level_line, sandbox_level
from macaron.mindforge.begin import begin as begin_cycle
from macaron.mindforge.cycle import Cycle, Options
from macaron.settings import load_settings
from tasks.console import console, progress
from tasks.sweep import sweep


@task(name="begin")
def begin(options: Options) -> Cycle:
    """The unfinished cycle with the same inputs, or a new one."""
    settings = load_settings()
    run = str(flow_run.id or "")
    sweep(settings, run)
    progress.remember(settings.state / "durations.json")
    with progress.step("begin") as line:
        cycle = begin_cycle(settings, options, run)
        line.summary = f"cycle {cycle.id}, champion {cycle.inputs.champion}"
    console.print(f"  [dim]sandbox:  {level_line(sandbox_level())}[/dim]")
    return cycle
