"""Sweep: what killed cycles left in Prefect and in the records. Only the lock's holder may call it.

A process that was killed cannot end its own flow run, which would stay Running for ever and keep
its concurrency slot.
"""

from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from macaron.files import write_json
from macaron.mindforge.cycle import FILE, cycles, now
from macaron.settings import Settings

DIED = "its process died"


def sweep(settings: Settings, own_run: str) -> int:
    """Ends the records and flow runs of dead cycles; how many there were."""
    dead = [r for r in cycles(settings) if r["state"] == "running" and r["run"] != own_run]
    for record in dead:
        _crash(record["run"])
        record |= {"state": "failed", "error": DIED, "ended": now()}
        write_json(settings.state / "cycles" / record["id"] / FILE, record)
    return len(dead)


def _crash(run: str) -> None:
    if not run:
        return
    with get_client(sync_client=True) as client:
        try:
            if client.read_flow_run(UUID(run)).state_type == "RUNNING":
                client.set_flow_run_state(UUID(run), Crashed(message=DIED), force=True)
        except ObjectNotFound:
            return  # It belonged to another Prefect server.
