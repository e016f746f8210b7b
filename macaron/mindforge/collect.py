"""Collect: imported and served turns that no champion has learned from, and fresh rollouts."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macaron.environments import ROUTED
from macaron.environments.bank import load_bank
from macaron.environments.base import Task
from macaron.experience.importer import import_file
from macaron.experience.log import TurnLog
from macaron.experience.store import ExperienceStore
from macaron.files import atomic_path, canonical_json, read_json
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle, cycles
from macaron.mindforge.rollout import Pool, Request, run
from macaron.pair import MANIFEST
from macaron.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

BANK = "data/bank.jsonl"


def collect(cycle: Cycle) -> Artifact:
    """One Parquet of everything the cycle may learn from.

    The facts say how much came from where: `imported`, `quarantined`, `waiting`, `rollouts`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    settings = cycle.settings()
    store = ExperienceStore(settings.experience)
    imports = _import(cycle, store)
    TurnLog(settings.state / "turns").compact(store)
    turns = waiting(settings, store, cycle.inputs.champion)
    rollouts = _rollouts(cycle)
    table = pa.concat_tables([turns, rollouts]).sort_by("id")
    out = cycle.dir / "experience" / "collected.parquet"
    with atomic_path(out) as temporary:
        pq.write_table(table, temporary)
    return Artifact.of(out, waiting=turns.num_rows, rollouts=rollouts.num_rows, **imports)


def pool(cycle: Cycle, probes: Mapping[str, Path] | None = None) -> Pool:
    """How the cycle's rollouts are run; adapters with a landing proof are held against it."""
    settings, profile = cycle.settings(), cycle.inputs.profile
    return Pool(
        base=cycle.base,
        dtype=profile.dtype,
        chunk=profile.sample_batch,
        workers=settings.workers,
        timeout=settings.budgets.step_timeout,
        probes=probes or {},
    )


def tasks_of(bank: Sequence[Task], environment: str) -> list[Task]:
    """The bank's tasks of one environment."""
    return [task for task in bank if task.environment == environment]


def _import(cycle: Cycle, store: ExperienceStore) -> dict[str, int]:
    """Imports the cycle's chat files; importing a file again adds nothing.

    The bad lines of a file count until some cycle was judged with it.
    """
    folder = cycle.dir / "experience" / "imports"
    judged = _judged_files(cycle.settings())
    counts = {"imported": 0, "quarantined": 0}
    for path, digest in cycle.inputs.imports.items():
        report = import_file(Path(path), store, folder / f"{digest[:16]}.quarantine.jsonl")
        counts["imported"] += report.rows
        counts["quarantined"] += 0 if digest in judged else report.quarantined
    return counts


def _judged_files(settings: Settings) -> set[str]:
    """Digests of the chat files of earlier cycles that came to a verdict."""
    judged = [r for r in cycles(settings) if r["state"] in ("promoted", "rejected")]
    return {digest for r in judged for digest in r["cycle"]["inputs"]["imports"].values()}


def waiting(settings: Settings, store: ExperienceStore, champion: str) -> "pa.Table":
    """Served and imported turns that neither the champion nor an ancestor has learned from.

    A turn that got other feedback after it was learned from waits again.
    """
    import pyarrow as pa

    table = store.read(sources=("served", "import"))
    learned = _learned(settings, champion)
    return table.filter(pa.array([key not in learned for key in _keys(table)], pa.bool_()))


def _keys(table: "pa.Table") -> list[str]:
    """What identifies a turn as it stands: its id and its feedback."""
    rows = table.select(["id", "feedback"]).to_pylist()
    return [canonical_json([row["id"], _said(row["feedback"])]) for row in rows]


def _said(feedback: dict[str, Any] | None) -> list[Any]:
    return [(feedback or {}).get(name) for name in ("rating", "correction", "outcome")]


def _learned(settings: Settings, champion: str) -> set[str]:
    import pyarrow.parquet as pq

    family = ancestry(settings.pairs, champion)
    keys: set[str] = set()
    for record in cycles(settings):
        if record["state"] == "promoted" and record["challenger"] in family:
            used = Path(record["cycle"]["folder"]) / "experience" / "collected.parquet"
            if used.exists():
                keys.update(_keys(pq.read_table(used, columns=["id", "feedback"])))
    return keys


def ancestry(pairs: Path, pair: str) -> list[str]:
    """The pair and its ancestors, youngest first."""
    chain: list[str] = []
    current: str | None = pair
    while current and current not in chain:
        chain.append(current)
        manifest: Any = pairs / current / MANIFEST
        current = read_json(manifest)["parent"] if manifest.exists() else None
    return chain


def _rollouts(cycle: Cycle) -> "pa.Table":
    """The champion's own answers to tasks of the bank, at the temperature of training."""
    settings, profile = cycle.settings(), cycle.inputs.profile
    bank = load_bank(settings.path(BANK))
    requests = []
    for environment in sorted({task.environment for task in bank} - set(ROUTED)):
        rng = random.Random(cycle.seed("collect", environment))
        tasks = tasks_of(bank, environment)
        requests.append(
            Request(
                pair=settings.pairs / cycle.inputs.champion,
                environment=environment,
                tasks=rng.sample(tasks, min(profile.rollouts, len(tasks))),
                temperature=profile.grpo.temperature,
                seed=cycle.seed("rollouts", environment),
            )
        )
    return run(pool(cycle), requests, cycle.dir / "rollouts")
