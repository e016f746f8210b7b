"""Rollouts: tasks answered by a pair under its HCP, in single-threaded worker processes.

The tasks are cut into chunks of fixed size with a seed each, so that the answers do not depend on
how many workers there are.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from macaron.environments.base import Task
from macaron.errors import MacaronError
from macaron.files import write_atomic, write_jsonl
from macaron.mindforge.cycle import seed_of
from macaron.profile import Section

if TYPE_CHECKING:
    import pyarrow as pa


class Chunk(Section):
    """Some tasks of one environment for one pair."""

    pair: str
    """Folder of the pair."""
    environment: str
    specialist: str
    temperature: float
    seed: int
    tasks: str
    """JSONL of tasks."""


class WorkerJob(Section):
    """What one worker process does."""

    base: str
    dtype: str
    out: str
    """Parquet of trajectories."""
    chunks: tuple[Chunk, ...]
    probes: dict[str, str]
    """Adapter revision -> file of its landing proof."""


@dataclass(frozen=True)
class Request:
    """Tasks of one environment for one pair."""

    pair: Path
    environment: str
    tasks: Sequence[Task]
    temperature: float
    seed: int


@dataclass(frozen=True)
class Pool:
    """How rollouts are run."""

    base: Path
    dtype: str
    chunk: int
    workers: int
    timeout: int
    probes: Mapping[str, Path] = field(default_factory=dict)
    """Adapter revision -> file of its landing proof, checked by every worker that loads it."""


def run(pool: Pool, requests: Sequence[Request], folder: Path) -> "pa.Table":
    """The trajectories of all requests, one a task, sorted by id.

    Raises:
        MacaronError: a worker failed; the line says why and where its log is.
    """
    chunks = [c for r in requests for c in _chunks(pool.chunk, r, folder)]
    count = max(1, min(pool.workers, len(chunks)))
    jobs = [_job(pool, chunks[i::count], folder / f"worker-{i}.json") for i in range(count)]
    _run_workers(jobs, pool.timeout)
    return _merge([Path(WorkerJob.model_validate_json(j.read_text()).out) for j in jobs])


def _chunks(size: int, request: Request, folder: Path) -> list[Chunk]:
    chunks = []
    for start in range(0, len(request.tasks), size):
        part = request.tasks[start : start + size]
        name = f"{request.pair.name}-{request.environment}-{start}.jsonl"
        tasks = write_jsonl(folder / "tasks" / name, [t.to_json() for t in part])
        chunks.append(
            Chunk(
                pair=str(request.pair),
                environment=request.environment,
                specialist=part[0].specialist,
                temperature=request.temperature,
                seed=seed_of(request.seed, start),
                tasks=str(tasks),
            )
        )
    return chunks


def _job(pool: Pool, chunks: Sequence[Chunk], path: Path) -> Path:
    job = WorkerJob(
        base=str(pool.base),
        dtype=pool.dtype,
        out=str(path.with_suffix(".parquet")),
        chunks=tuple(chunks),
        probes={revision: str(path) for revision, path in pool.probes.items()},
    )
    return write_atomic(path, job.model_dump_json(indent=1))


def _run_workers(jobs: Sequence[Path], timeout: int) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    running = []
    for job in jobs:
        log = job.with_suffix(".log").open("wb")
        command = [sys.executable, "-m", "macaron.mindforge.worker", str(job)]
        running.append((subprocess.Popen(command, stdout=log, stderr=log, env=environment), job))
        log.close()
    try:
        for process, job in running:
            _check(process.wait(timeout=timeout), job.with_suffix(".log"))
    except subprocess.TimeoutExpired as error:
        raise MacaronError(
            f"a rollout worker took more than {timeout} s",
            where=str(jobs[0].parent),
            mend="raise budgets.step_timeout",
        ) from error
    finally:
        for process, _ in running:
            process.kill()
            process.wait()


def _check(code: int, log: Path) -> None:
    if code != 0:
        lines = log.read_text(errors="replace").strip().splitlines()
        last = lines[-1] if lines else f"exit code {code}"
        raise MacaronError(f"a rollout worker failed: {last}", where=str(log), mend="see the log")


def _merge(paths: Sequence[Path]) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])
    return table.sort_by("id")
