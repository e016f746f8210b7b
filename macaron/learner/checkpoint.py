"""Checkpoints of one specialist's training: adapter, optimizer and step, as one fact.

A step is on disk wholly or not at all: its tensors are written first, the JSON that names them
and their digests last.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from macaron.errors import TrainingError
from macaron.files import digest_file, read_json, write_atomic, write_json

STATE = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """Where a training stands after `step` steps."""

    step: int
    run: str
    """Digest of all that decides the run."""
    totals: Mapping[str, float]
    adapter: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]


def save_shard(folder: Path, step: int, rank: int, tensors: Mapping[str, Tensor]) -> None:
    """Writes one rank's optimizer state."""
    _write(folder / f"optimizer-{step}-{rank}.safetensors", tensors)


def save_state(
    folder: Path, step: int, run: str, totals: Mapping[str, float], adapter: Mapping[str, Tensor]
) -> None:
    """Makes `step` the one to resume from; rank 0, once every rank's shard is written."""
    _write(folder / f"adapter-{step}.safetensors", adapter)
    files = sorted(folder.glob(f"*-{step}*.safetensors"))
    named = {
        p.name: digest_file(p)
        for p in files
        if p.name == f"adapter-{step}.safetensors" or p.name.startswith(f"optimizer-{step}-")
    }
    write_json(folder / STATE, {"step": step, "run": run, "totals": totals, "files": named})
    for old in folder.glob("*.safetensors"):
        if old.name not in named:
            old.unlink()


def load_checkpoint(folder: Path, run: str, rank: int) -> Checkpoint | None:
    """The last whole checkpoint, or None where there is none.

    Raises:
        TrainingError: it is of another run, or its files aren't what it says.
    """
    from safetensors.torch import load_file

    if not (folder / STATE).exists():
        return None
    state: dict[str, Any] = read_json(folder / STATE)
    if state["run"] != run:
        raise TrainingError(
            "the checkpoint is of another run", where=str(folder), mend="remove the folder"
        )
    for name, digest in state["files"].items():
        if not (folder / name).exists() or digest_file(folder / name) != digest:
            raise TrainingError(
                f"{name} is damaged", where=str(folder), mend="remove the folder to start again"
            )
    step = state["step"]
    return Checkpoint(
        step=step,
        run=run,
        totals=state["totals"],
        adapter=load_file(folder / f"adapter-{step}.safetensors"),
        optimizer=load_file(folder / f"optimizer-{step}-{rank}.safetensors"),
    )


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    from safetensors.torch import save

    # Not save_file: it reports a full disk as a serialisation error of its own.
    write_atomic(path, save({k: v.contiguous() for k, v in tensors.items()}))
