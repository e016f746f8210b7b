"""The cycle's expansion: from the champion's failures to the harness of the challenger.

Only rewrites that the contract opens and that need no person become the challenger's; what needs
one is put before them.
"""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from macaron.environments.bank import load_bank
from macaron.environments.base import Task
from macaron.errors import MacaronError
from macaron.files import read_json, read_jsonl, write_atomic, write_json, write_jsonl
from macaron.hcp.changes import diff
from macaron.hcp.document import HCP, load_hcp
from macaron.hcp.ledger import Ledger
from macaron.hcp.rewrite import propose
from macaron.hcp.text import dump_hcp
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.collect import BANK
from macaron.mindforge.cycle import Cycle
from macaron.mindforge.expand.candidate import Edit, edited
from macaron.mindforge.expand.expansion import unseen_tasks
from macaron.mindforge.expand.worker import FOUND, ExpandJob
from macaron.pair import HCP_FILE, TOOLS

LEDGER = "hcp"
"""Folder of the record of rewrites, in the project's state."""


def expand(cycle: Cycle) -> Artifact:
    """The expansion's summary; the challenger's harness is in the facts as `hcp`.

    Raises:
        MacaronError: the search's process failed; the line says why and where its log is.
    """
    champion = cycle.settings().pairs / cycle.inputs.champion
    folder = cycle.dir / "expansion"
    if not cycle.inputs.profile.expand.attempts:
        path = write_json(folder / "expansion.json", {"left_out": True})
        return Artifact.of(path, left_out=True, hcp=str(champion / HCP_FILE))
    _run(_job(cycle, champion, folder), cycle.settings().budgets.step_timeout)
    summary = read_json(folder / "expansion.json")
    file = _chosen(cycle, champion, folder, summary)
    names = ("failures", "causes", "covered", "stopped", "spent", "unseen", "accepted")
    facts = {name: summary[name] for name in names}
    return Artifact.of(folder / "expansion.json", left_out=False, hcp=str(file), **facts)


def _job(cycle: Cycle, champion: Path, folder: Path) -> Path:
    profile = cycle.inputs.profile
    bank = [t for t in load_bank(cycle.settings().path(BANK)) if t.environment != "routing"]
    practice = _practice(bank, profile.expand.practice, cycle.seed("expand", "practice"))
    environments = {
        key: sorted({task.environment for task in bank if task.specialist == key})
        for key in sorted({task.specialist for task in practice})
    }
    seed = cycle.seed("expand")
    unseen = unseen_tasks(environments, bank, profile.expand.unseen, seed)
    fresh = [task for tasks in unseen.values() for task in tasks]
    job = ExpandJob(
        base=cycle.inputs.base,
        dtype=profile.dtype,
        chunk=profile.sample_batch,
        pair=str(champion),
        contract=cycle.inputs.contract,
        config=profile.expand,
        seed=seed,
        practice=str(write_jsonl(folder / "practice.jsonl", [t.to_json() for t in practice])),
        unseen=str(write_jsonl(folder / "unseen.jsonl", [t.to_json() for t in fresh])),
        out=str(folder),
    )
    return write_atomic(folder / "job.json", job.model_dump_json(indent=1))


def _practice(bank: list[Task], count: int, seed: int) -> list[Task]:
    rng = random.Random(seed)
    found = []
    for key in sorted({task.specialist for task in bank}):
        own = [task for task in bank if task.specialist == key]
        found += rng.sample(own, min(count, len(own)))
    return found


def _run(job: Path, timeout: int) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    log = job.with_suffix(".log")
    command = [sys.executable, "-m", "macaron.mindforge.expand.worker", str(job)]
    with log.open("wb") as file:
        try:
            done = subprocess.run(
                command, stdout=file, stderr=file, env=environment, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise MacaronError(
                f"the expansion took more than {timeout} s",
                where=str(log),
                mend="raise budgets.step_timeout, or lower the profile's expand.attempts",
            ) from error
    if done.returncode:
        lines = log.read_text(errors="replace").strip().splitlines()
        last = lines[-1] if lines else f"exit code {done.returncode}"
        raise MacaronError(f"the expansion failed: {last}", where=str(log), mend="see the log")


def _chosen(cycle: Cycle, champion: Path, folder: Path, summary: dict[str, object]) -> Path:
    """The challenger's harness, every rewrite of it in the record."""
    old, scope = load_hcp(champion / HCP_FILE), cycle.contract().rewritable
    ledger = Ledger(cycle.settings().state / LEDGER)
    why = f"expansion of cycle {cycle.id}: {summary['covered']} failures covered"
    for hcp in _waiting(old, folder):
        propose(old, diff(old, hcp), scope, ledger, f"expansion of cycle {cycle.id}: tools hidden")
    new = load_hcp(folder / FOUND)
    if new.digest == old.digest:
        return champion / HCP_FILE
    rewrite = propose(old, diff(old, new), scope, ledger, why)
    if (champion / TOOLS).exists():
        # Training looks for the parent's helpers beside the harness.
        shutil.copytree(champion / TOOLS, folder / TOOLS, dirs_exist_ok=True)
    return write_atomic(folder / HCP_FILE, dump_hcp(rewrite.hcp))


def _waiting(old: HCP, folder: Path) -> list[HCP]:
    """What failures suggest and only a person may let: tools of their worlds."""
    rows = read_jsonl(folder / "candidates.jsonl")
    waits = [r for r in rows if r["state"] == "person" and r["origin"] == "template:tool"]
    return [edited(old, [Edit(path, value) for path, value in r["edits"].items()]) for r in waits]
