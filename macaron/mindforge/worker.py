"""The rollout worker's process: `python -m macaron.mindforge.worker JOB`.

It dies with its parent, answers every task of its chunks, and writes one Parquet at the end.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from macaron.engines.randomness import derive
from macaron.environments import ROUTED, verify
from macaron.environments.base import Score, Task
from macaron.errors import MacaronError
from macaron.experience.schema import Trajectory
from macaron.files import atomic_path, digest_value, read_jsonl
from macaron.harness.turn import Turn
from macaron.messages import Message
from macaron.mindforge.cycle import now
from macaron.mindforge.rollout import Chunk, WorkerJob
from macaron.mint.episodes import play
from macaron.mol.runtime import Runtime, runtime_of
from macaron.pair import Pair, adapter_path, load_pair


class Worker:
    """One resident base, the adapters of every pair in the job, one thread."""

    def __init__(self, job: WorkerJob) -> None:
        from transformers import AutoTokenizer

        from macaron.engines.local import load_local
        from macaron.mint.probe import check_probe, load_probe

        self.pairs = {chunk.pair: load_pair(Path(chunk.pair)) for chunk in job.chunks}
        folders = {
            self.pairs[chunk.pair].adapters[chunk.specialist]: adapter_path(
                Path(chunk.pair), chunk.specialist
            )
            for chunk in job.chunks
        }
        tokenizer = AutoTokenizer.from_pretrained(job.base)
        engine = load_local(Path(job.base), folders, threads=1, dtype=job.dtype)
        for revision in job.probes.keys() & folders.keys():
            check_probe(engine, revision, load_probe(Path(job.probes[revision])))
        self.runtimes = {
            name: runtime_of(pair, Path(name), engine, tokenizer)
            for name, pair in self.pairs.items()
        }

    def answer(self, chunk: Chunk) -> list[Trajectory]:
        """One trajectory a task."""
        tasks = [Task.from_json(value) for value in read_jsonl(Path(chunk.tasks))]
        pair, runtime = self.pairs[chunk.pair], self.runtimes[chunk.pair]
        if chunk.environment in ROUTED:
            return routed(chunk, tasks, pair, runtime)
        return played(chunk, tasks, pair, runtime)


def played(chunk: Chunk, tasks: Sequence[Task], pair: Pair, runtime: Runtime) -> list[Trajectory]:
    """A session of one turn for each task, as a served session would have it.

    A session's seed depends on the chunk's and its task alone.
    """
    started = time.perf_counter()
    seeds = [derive(chunk.seed, task.id) for task in tasks]
    episodes = play(runtime, tasks, seeds, chunk.temperature)
    took = 1000 * (time.perf_counter() - started) / len(tasks)
    return [
        _trajectory(
            chunk,
            pair,
            task,
            episode.score,
            {"episode": took},
            messages=_said(episode.turn),
            token_ids=episode.turn.token_ids,
            loss_mask=episode.turn.loss_mask,
            logprobs=episode.turn.logprobs,
            stop_reason=episode.turn.stop_reason,
        )
        for task, episode in zip(tasks, episodes, strict=True)
    ]


def _said(turn: Turn) -> list[Message]:
    """The conversation; a turn that failed has an empty answer at its end."""
    ended = turn.messages[-1]["role"] == "assistant" and "tool_calls" not in turn.messages[-1]
    return [*turn.messages] if ended else [*turn.messages, {"role": "assistant", "content": ""}]


def routed(chunk: Chunk, tasks: Sequence[Task], pair: Pair, runtime: Runtime) -> list[Trajectory]:
    """The router's choice for each task."""
    chosen = runtime.route([task.messages for task in tasks])
    texts = [runtime.hcp.specialists[key].name for key in chosen]
    return [
        _trajectory(
            chunk,
            pair,
            task,
            score,
            {},
            messages=[*task.messages, {"role": "assistant", "content": text}],
            stop_reason="route",
        )
        for task, text, score in zip(tasks, texts, verify(tasks, texts), strict=True)
    ]


def _trajectory(
    chunk: Chunk, pair: Pair, task: Task, score: Score, timings: dict[str, float], **row: Any
) -> Trajectory:
    seed = derive(chunk.seed, task.id)
    return Trajectory(
        id=digest_value([pair.id, task.id, chunk.seed, chunk.temperature])[:32],
        session=task.id,
        source="rollout",
        created_at=now(),
        specialist=task.specialist,
        pair=pair.id,
        hcp=pair.hcp,
        adapter=pair.adapters[task.specialist],
        environment=task.environment,
        kind=task.kind,
        task=json.dumps(task.to_json(), ensure_ascii=False, sort_keys=True),
        seed=seed,
        reward=score.reward,
        reward_valid=score.valid,
        reward_components=dict(score.components),
        timings_ms=timings,
        **row,
    )


def main(path: Path) -> None:
    """Answers the job's chunks and writes the trajectories."""
    import pyarrow.parquet as pq

    from macaron.experience.table import to_table
    from macaron.process import die_with_parent

    die_with_parent()
    job = WorkerJob.model_validate_json(path.read_text())
    worker = Worker(job)
    rows = [row for chunk in job.chunks for row in worker.answer(chunk)]
    with atomic_path(Path(job.out)) as temporary:
        pq.write_table(to_table(rows), temporary)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except MacaronError as error:
        sys.exit(str(error))
