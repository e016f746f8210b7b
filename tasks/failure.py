"""What a failed cycle leaves behind: a record that says why. The champion is as it was."""

from typing import Any

from macaron.files import write_json
from macaron.mindforge.cycle import FILE, cycles, now
from macaron.settings import load_settings


def record_failure(flow: Any, flow_run: Any, state: Any) -> None:
    """Marks the flow run's cycle as failed; a rerun with the same inputs resumes it."""
    settings = load_settings()
    for record in cycles(settings):
        if record["state"] == "running" and record["run"] == str(flow_run.id):
            error = state.result(raise_on_failure=False)
            # Prefect's own word for a signal is an exception without words.
            why = str(error) or "stopped by a person or a signal"
            record |= {"state": "failed", "error": why, "ended": now()}
            write_json(settings.state / "cycles" / record["id"] / FILE, record)
