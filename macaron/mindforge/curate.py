"""Curate: turns validated experience into a training job.

Corrections and turns with a good outcome become examples; failures steer which kinds of task are
drawn from the bank. Nothing sealed can get in: the bank holds train tasks only.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macaron.environments import ROUTED, verify
from macaron.environments.bank import load_bank
from macaron.environments.base import Task
from macaron.experience.selection import Selection, select
from macaron.files import write_json, write_jsonl
from macaron.hcp.document import load_hcp
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.collect import BANK
from macaron.mindforge.cycle import Cycle
from macaron.mint.job import SpecialistJob, TrainingJob, write_job
from macaron.pair import HCP_FILE, adapter_path

if TYPE_CHECKING:
    import pyarrow as pa


def curate(cycle: Cycle, good: "pa.Table", harness: Path | None = None) -> Artifact:
    """The folder with the training job; the facts are the selection's report.

    Args:
        cycle: the running cycle.
        good: validated experience.
        harness: file of the HCP to train under; the champion's own by default.
    """
    settings = cycle.settings()
    folder = cycle.dir / "training"
    champion = settings.pairs / cycle.inputs.champion
    bank = load_bank(settings.path(BANK))
    file = harness or champion / HCP_FILE
    hcp = load_hcp(file)
    selection = select(good, _verify_json, hcp=hcp.digest)
    specialists = tuple(
        _specialist(cycle, folder, key, bank, selection, champion) for key in hcp.specialists
    )
    write_job(_job(cycle, folder, file, specialists), folder / "job.json")
    report = write_json(folder / "selection.json", selection.report)
    return Artifact.of(folder / "job.json", selection=str(report), **selection.report)


def _job(
    cycle: Cycle, folder: Path, harness: Path, specialists: tuple[SpecialistJob, ...]
) -> TrainingJob:
    settings, profile = cycle.settings(), cycle.inputs.profile
    digest = load_hcp(harness).digest
    # Under a harness of this night, all turns were made under another one, the champion's: their
    # texts count, and validation has refused what the contract does not want.
    rewritten = digest != cycle.inputs.hcp_digest
    return TrainingJob(
        base=cycle.inputs.base,
        base_digest=cycle.inputs.base_digest,
        hcp=str(harness),
        hcp_digest=digest,
        other_hcp="accept" if rewritten else cycle.contract().experience.other_hcp,
        out=str(folder / "out"),
        seed=cycle.seed("train"),
        lora=profile.lora,
        grpo=profile.grpo,
        processes=settings.workers,
        dtype=profile.dtype,
        timeout=settings.budgets.step_timeout,
        specialists=specialists,
    )


def _specialist(
    cycle: Cycle,
    folder: Path,
    key: str,
    bank: Sequence[Task],
    selection: Selection,
    champion: Path,
) -> SpecialistJob:
    grpo = cycle.inputs.profile.grpo
    rng = random.Random(cycle.seed("curate", key))
    own = [t for t in bank if t.specialist == key and t.environment not in ROUTED]
    tasks = draw(own, selection.kind_weights, grpo.steps * grpo.prompts, rng)
    routing = [t for t in bank if t.environment in ROUTED] if key == "L0" else []
    turns = draw(routing, selection.kind_weights, grpo.steps * grpo.routing_batch, rng)
    examples = [e for e in selection.examples if e.specialist == key]
    inputs = folder / "inputs"
    return SpecialistJob.of(
        specialist=key,
        parent=adapter_path(champion, key),
        tasks=write_jsonl(inputs / f"{key}-tasks.jsonl", [t.to_json() for t in tasks]),
        examples=write_jsonl(inputs / f"{key}-examples.jsonl", [e.to_json() for e in examples]),
        routing=write_jsonl(inputs / f"{key}-routing.jsonl", [t.to_json() for t in turns]),
    )


def draw(
    tasks: Sequence[Task],
    weights: dict[str, dict[str, float]],
    count: int,
    rng: random.Random,
) -> list[Task]:
    """`count` tasks, the kinds in proportion to their share times their weight.

    A kind that experience says fails more is drawn more; a task repeats only when its kind has
    been used up.
    """
    if not tasks:
        return []
    by_kind: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        by_kind.setdefault((task.environment, task.kind), []).append(task)
    kinds = sorted(by_kind)
    shares = [len(by_kind[k]) * weights.get(k[0], {}).get(k[1], 1.0) for k in kinds]
    piles: dict[tuple[str, str], list[Task]] = {k: [] for k in kinds}
    drawn = []
    for kind in rng.choices(kinds, weights=shares, k=count):
        if not piles[kind]:
            piles[kind] = rng.sample(by_kind[kind], len(by_kind[kind]))
        drawn.append(piles[kind].pop())
    return drawn


def _verify_json(tasks: Sequence[dict[str, Any]], answers: Sequence[str]) -> list[Any]:
    return verify([Task.from_json(task) for task in tasks], answers)
