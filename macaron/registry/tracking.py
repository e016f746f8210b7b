"""The cycle in MLflow: a run a cycle with the contract's numbers, a child run a specialist.

Everything may be repeated: a resumed cycle finds its run by tag and adds only what is missing.
"""

import functools
import getpass
import os
import socket
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from macaron.contract.verdict import Verdict
from macaron.registry.champions import Champions
from macaron.registry.connection import one_line
from macaron.registry.lock import exclusive

CYCLE, PART, OWNER = "macaron.cycle", "macaron.part", "macaron.owner"
_WHOLE = "cycle"
_PROCESS = uuid.uuid4().hex[:8]


class Tracking(Champions):
    """Runs, metrics and artifacts of cycles, beside the registered versions."""

    @one_line
    def close_stale_runs(self) -> int:
        """Ends the runs that a dead process on this machine left RUNNING; returns how many."""
        stale = [
            run.info.run_id
            for run in self._search("attributes.status = 'RUNNING'")
            if not _alive(run.data.tags.get(OWNER, ""))
        ]
        for run_id in stale:
            self.client.set_terminated(run_id, "KILLED")
        return len(stale)

    @one_line
    def cycle_run(self, cycle_id: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> str:
        """The cycle's run, RUNNING; a resumed cycle gets the run it had.

        Args:
            cycle_id: name of the cycle; also the run's.
            params: what the cycle was started with; the same at every resume.
            tags: further tags.

        Returns:
            The run's id.
        """
        wanted = {**tags, CYCLE: cycle_id, PART: _WHOLE, "mlflow.source.name": "macaron improve"}
        return self._open(cycle_id, wanted, params)

    @one_line
    def specialist_run(
        self, cycle_run: str, specialist: str, params: Mapping[str, Any] | None = None
    ) -> str:
        """The child run of one specialist's training, RUNNING."""
        cycle = self.client.get_run(cycle_run).data.tags[CYCLE]
        tags = {"mlflow.parentRunId": cycle_run, CYCLE: cycle, PART: specialist}
        return self._open(f"{cycle} {specialist}", tags, params or {})

    @one_line
    def log_steps(self, run_id: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Step metrics: every number in a row, at the row's `step`.

        Steps that a killed process had logged already are not logged twice.
        """
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [
            Metric(name, float(value), now, int(row["step"]))
            for row in rows
            for name, value in row.items()
            if name != "step" and isinstance(value, int | float)
        ]
        last = {key: self._last_step(run_id, key) for key in {m.key for m in metrics}}
        fresh = [metric for metric in metrics if metric.step > last[metric.key]]
        # One request takes at most 1,000.
        for start in range(0, len(fresh), 1000):
            self.client.log_batch(run_id, metrics=fresh[start : start + 1000])
        for metric in fresh:
            self._steps[run_id, metric.key] = max(self._steps[run_id, metric.key], metric.step)

    @one_line
    def log_verdict(self, run_id: str, verdict: Verdict) -> None:
        """The contract's numbers on the cycle's run, where Compare shows them.

        Metrics `suite/<name>/champion`, `/challenger`, `/difference`, `/low`, `/high`, `/p`,
        `/p_holm` and `/n`; tags `verdict` and `contract`; the reasons as the run's note.
        """
        from mlflow.entities import Metric, RunTag

        values = verdict.flat_metrics()
        there = self.client.get_run(run_id).data.metrics
        now = int(time.time() * 1000)
        metrics = [Metric(k, v, now, 0) for k, v in values.items() if there.get(k) != v]
        tags = {
            "verdict": verdict.decision,
            "contract": verdict.contract_digest,
            "mlflow.note.content": _note(verdict),
        }
        self.client.log_batch(run_id, metrics=metrics, tags=[RunTag(*tag) for tag in tags.items()])

    @one_line
    def numbers(self, run_id: str) -> dict[str, float]:
        """The last value of every metric of a run."""
        return dict(self.client.get_run(run_id).data.metrics)

    @one_line
    def log_files(self, run_id: str, paths: Sequence[Path], folder: str = "") -> None:
        """Files and whole folders among the run's artifacts, under their own names."""
        for path in paths:
            if path.is_dir():
                inner = f"{folder}/{path.name}" if folder else path.name
                self.client.log_artifacts(run_id, str(path), inner)
            else:
                self.client.log_artifact(run_id, str(path), folder or None)

    @one_line
    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Sets tags of a run."""
        for key, value in tags.items():
            self.client.set_tag(run_id, key, value)

    @one_line
    def finish(self, run_id: str, *, failed: bool = False) -> None:
        """Ends a run."""
        self.client.set_terminated(run_id, "FAILED" if failed else "FINISHED")

    def _open(self, name: str, tags: Mapping[str, str], params: Mapping[str, Any]) -> str:
        from mlflow.entities import Param, RunTag

        owner = f"{socket.gethostname()}:{os.getpid()}:{_PROCESS}"
        owned = {"mlflow.user": _user(), **tags, OWNER: owner}
        query = f"tags.`{CYCLE}` = '{tags[CYCLE]}' and tags.`{PART}` = '{tags[PART]}'"
        with exclusive(self.lock_file):
            found = self._search(query)
            run = found[0] if found else self.client.create_run(
                self.experiment, run_name=name, tags=owned
            )  # fmt: skip
        run_id = str(run.info.run_id)
        self.client.log_batch(
            run_id,
            params=[Param(key, str(value)) for key, value in params.items()],
            tags=[RunTag(*tag) for tag in owned.items()],
        )
        if run.info.status != "RUNNING":
            self.client.update_run(run_id, "RUNNING")
        return run_id

    def _search(self, query: str) -> list[Any]:
        return list(self.client.search_runs([self.experiment], query, max_results=1000))

    @functools.cached_property
    def _steps(self) -> dict[tuple[str, str], int]:
        """(run, metric) -> the last step logged, as far as this process has asked or logged."""
        return {}

    def _last_step(self, run_id: str, key: str) -> int:
        if (run_id, key) not in self._steps:
            history = self.client.get_metric_history(run_id, key)
            self._steps[run_id, key] = max((metric.step for metric in history), default=-1)
        return self._steps[run_id, key]


def _user() -> str:
    """The login name; a container's number may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _alive(owner: str) -> bool:
    """Whether the process that owns a run lives; one on another machine is taken to live."""
    host, _, rest = owner.partition(":")
    pid, _, process = rest.partition(":")
    if not pid.isdigit():
        return False
    if host != socket.gethostname():
        return True
    if int(pid) == os.getpid():
        return process == _PROCESS
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _note(verdict: Verdict) -> str:
    reasons = "\n".join(f"- {reason}" for reason in verdict.reasons)
    return f"**{verdict.decision}** under contract {verdict.contract}\n\n{reasons}\n"
