"""Record: one pair into DVC, git and MLflow; doing it twice changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from macaron.mindforge.stores import lineage, pair_store
from macaron.pair import Pair
from macaron.registry.code import Code
from macaron.registry.tracking import Tracking
from macaron.settings import Settings


@dataclass(frozen=True)
class Record:
    """What is to be kept of a pair."""

    cycle: str
    """Name of the cycle's run in MLflow."""
    pair: Pair
    verdict: str
    """promoted, rejected or ancestor."""
    code: Code
    """What made it."""
    files: tuple[Path, ...]
    """What it was made from: contract, bank, experience."""
    params: Mapping[str, Any]
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Of the verdict."""


@dataclass(frozen=True)
class Recorded:
    """Where a pair was kept."""

    commit: str
    tag: str
    dvc_md5: str
    version: int
    run: str


def record_pair(settings: Settings, registry: Tracking, record: Record) -> Recorded:
    """Keeps the pair: DVC and git first, so that MLflow's tags can name them."""
    pair = record.pair
    kept = lineage(settings).record(
        pair.id,
        parent=pair.parent,
        pair_folder=pair_store(settings).folder(pair.id),
        files=record.files,
        params=record.params,
        metrics=record.metrics,
        code=record.code,
        message=f"Pair {pair.id}, generation {pair.generation}: {record.verdict}",
    )
    run = registry.cycle_run(record.cycle, record.params, record.tags)
    version = registry.register(
        pair_store(settings).folder(pair.id),
        run,
        {
            "pair_id": pair.id,
            "parent": pair.parent or "",
            "generation": str(pair.generation),
            "contract": str(record.params["contract"]),
            "dvc_md5": kept.dvc_md5,
            "git_tag": kept.tag,
            "verdict": record.verdict,
            "pool": pair.pool or "",
        },
    )
    return Recorded(kept.commit, kept.tag, kept.dvc_md5, version, run)
