"""The expansion's process: `python -m macaron.mindforge.expand.worker JOB`.

It dies with its parent; a later one goes on with the batches that are there.
"""

import sys
from pathlib import Path

from macaron.contract.document import load_contract
from macaron.environments.base import Task
from macaron.errors import MacaronError
from macaron.files import read_jsonl, write_atomic
from macaron.hcp.text import dump_hcp
from macaron.mindforge.expand.attempts import Batches, player_of
from macaron.mindforge.expand.expansion import expand
from macaron.mindforge.expand.result import write
from macaron.mindforge.expand.search import Setting
from macaron.mol.runtime import Runtime, runtime_of
from macaron.pair import adapter_path, load_pair
from macaron.profile import ExpandConfig, Section

FOUND = "found.toml"
"""The harness that the search would have."""


class ExpandJob(Section):
    """What one expansion does."""

    base: str
    dtype: str
    chunk: int
    """Sessions at once."""
    pair: str
    """Folder of the frozen pair."""
    contract: str
    config: ExpandConfig
    seed: int
    practice: str
    """JSONL of tasks."""
    unseen: str
    """JSONL of tasks."""
    out: str
    """Folder of what it leaves behind."""


def runtime(job: ExpandJob) -> Runtime:
    """The frozen pair at work."""
    from transformers import AutoTokenizer

    from macaron.engines.local import load_local

    folder = Path(job.pair)
    pair = load_pair(folder)
    adapters = {revision: adapter_path(folder, key) for key, revision in pair.adapters.items()}
    engine = load_local(Path(job.base), adapters, threads=1, dtype=job.dtype)
    return runtime_of(pair, folder, engine, AutoTokenizer.from_pretrained(job.base))


def run(job: ExpandJob) -> Path:
    """Expands, and writes what came of it; the summary's file."""
    out, own = Path(job.out), runtime(job)
    setting = Setting(own, load_contract(Path(job.contract)), job.config, job.seed)
    batches = Batches(out / "batches", player_of(own, job.chunk), job.seed)
    found = expand(setting, _tasks(job.practice), _tasks(job.unseen), batches)
    write_atomic(out / FOUND, dump_hcp(found.hcp))
    return write(found, out)


def _tasks(path: str) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for value in read_jsonl(Path(path)):
        task = Task.from_json(value)
        found.setdefault(task.specialist, []).append(task)
    return found


if __name__ == "__main__":
    from macaron.process import die_with_parent

    die_with_parent()
    try:
        run(ExpandJob.model_validate_json(Path(sys.argv[1]).read_text()))
    except MacaronError as error:
        sys.exit(str(error))
