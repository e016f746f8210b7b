"""The rollout worker's process: `python -m macaron.mindforge.worker JOB`.

It dies with its parent, answers every task of its chunks, and writes one Parquet at the end.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from macaron.engines.base import SampleParams
from macaron.environments import verify
from macaron.environments.base import Score, Task
from macaron.errors import MacaronError
from macaron.experience.schema import Trajectory
from macaron.files import atomic_path, digest_value, read_jsonl
from macaron.harness.prompts import answer_prompt, answer_text
from macaron.hcp.document import HCP, load_hcp
from macaron.mindforge.cycle import now
from macaron.mindforge.rollout import Chunk, WorkerJob
from macaron.mol.router import route
from macaron.pair import HCP_FILE, Pair, adapter_path, load_pair


class Worker:
    """One resident base, the adapters of every pair in the job, one thread."""

    def __init__(self, job: WorkerJob) -> None:
        from transformers import AutoTokenizer

        from macaron.engines.local import load_local
        from macaron.mint.probe import check_probe, load_probe

        self.pairs = {chunk.pair: load_pair(Path(chunk.pair)) for chunk in job.chunks}
        self.hcps = {name: load_hcp(Path(name) / HCP_FILE) for name in self.pairs}
        folders = {
            pair.adapters[chunk.specialist]: adapter_path(Path(chunk.pair), chunk.specialist)
            for chunk in job.chunks
            for pair in [self.pairs[chunk.pair]]
        }
        self.tokenizer: Any = AutoTokenizer.from_pretrained(job.base)
        self.engine = load_local(Path(job.base), folders, threads=1, dtype=job.dtype)
        for revision in job.probes.keys() & folders.keys():
            check_probe(self.engine, revision, load_probe(Path(job.probes[revision])))

    def answer(self, chunk: Chunk) -> list[Trajectory]:
        """One trajectory a task."""
        tasks = [Task.from_json(value) for value in read_jsonl(Path(chunk.tasks))]
        started = time.perf_counter()
        pair, hcp = self.pairs[chunk.pair], self.hcps[chunk.pair]
        if chunk.environment == "routing":
            rows = self._route(tasks, pair, hcp)
        else:
            rows = self._sample(chunk, tasks, pair, hcp)
        sampled = time.perf_counter()
        scores = verify(tasks, [row["text"] for row in rows])
        timings = {
            "sample": 1000 * (sampled - started) / len(tasks),
            "verify": 1000 * (time.perf_counter() - sampled) / len(tasks),
        }
        return [
            _trajectory(chunk, pair, task, row, score, timings)
            for task, row, score in zip(tasks, rows, scores, strict=True)
        ]

    def _sample(
        self, chunk: Chunk, tasks: Sequence[Task], pair: Pair, hcp: HCP
    ) -> list[dict[str, Any]]:
        specialist = hcp.specialists[chunk.specialist]
        prompts = [answer_prompt(self.tokenizer, hcp, t.specialist, t.messages) for t in tasks]
        params = SampleParams(
            max_tokens=specialist.max_tokens,
            temperature=chunk.temperature,
            seed=chunk.seed,
            stop_ids=(self.tokenizer.eos_token_id,),
        )
        groups = self.engine.sample(prompts, pair.adapters[chunk.specialist], params)
        return [
            {
                "text": answer_text(self.tokenizer, done.token_ids),
                "token_ids": [*prompt, *done.token_ids],
                "loss_mask": [False] * len(prompt) + [True] * len(done.token_ids),
                "logprobs": [0.0] * len(prompt) + list(done.logprobs),
                "stop_reason": done.stop_reason,
            }
            for prompt, (done,) in zip(prompts, groups, strict=True)
        ]

    def _route(self, tasks: Sequence[Task], pair: Pair, hcp: HCP) -> list[dict[str, Any]]:
        adapter = pair.adapters["L0"]
        chosen = route(self.engine, self.tokenizer, hcp, [t.messages for t in tasks], adapter)
        return [{"text": hcp.specialists[key].name, "stop_reason": "route"} for key in chosen]


def _trajectory(
    chunk: Chunk,
    pair: Pair,
    task: Task,
    row: dict[str, Any],
    score: Score,
    timings: dict[str, float],
) -> Trajectory:
    text = row.pop("text")
    return Trajectory(
        id=digest_value([pair.id, task.id, chunk.seed, chunk.temperature])[:32],
        session=task.id,
        source="rollout",
        created_at=now(),
        specialist=task.specialist,
        messages=[*task.messages, {"role": "assistant", "content": text}],
        pair=pair.id,
        hcp=pair.hcp,
        adapter=pair.adapters[task.specialist],
        environment=task.environment,
        kind=task.kind,
        task=json.dumps(task.to_json(), ensure_ascii=False, sort_keys=True),
        seed=chunk.seed,
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
