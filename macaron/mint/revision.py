"""Adapter revisions: immutable LoRA folders in PEFT's format, named by the digest of their bytes.

The same weights give the same bytes on every machine, and a folder is whole or absent.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from macaron.errors import TrainingError
from macaron.files import digest_tree, digest_value, read_json, storage_errors, write_json
from macaron.mint.layout import CONFIG, WEIGHTS, Layout, adapter_layout, saved_key
from macaron.profile import LoraConfig

if TYPE_CHECKING:
    from torch import Tensor

Weights = Mapping[str, "Tensor"]


def identity_adapters(
    base: Path, lora: LoraConfig, out: Path, specialists: Iterable[str], seed: int
) -> dict[str, str]:
    """Fresh adapters that change nothing: A random, B zero.

    Args:
        base: folder of the base.
        lora: rank and alpha of every adapter.
        out: gets one folder a specialist.
        specialists: their keys.
        seed: the same seed, base and key give the same bytes on every machine.

    Returns:
        Specialist -> revision.
    """
    layout = adapter_layout(base, lora)
    return {
        key: write_adapter(_fresh(layout, digest_value([seed, key])), layout, out / key)
        for key in specialists
    }


def _fresh(layout: Layout, seed: str) -> dict[str, "Tensor"]:
    """PEFT's own start: A uniform in +-1/sqrt(in), B zero."""
    import numpy as np
    import torch

    # RandomState's stream is frozen by NumPy, so that it is the same everywhere for good.
    rng = np.random.RandomState(int(seed[:8], 16))
    weights = {}
    for key, shape in layout.shapes.items():
        if ".lora_B." in key:
            weights[key] = torch.zeros(shape)
        else:
            uniform = (2 * rng.random_sample(shape) - 1) / np.sqrt(shape[-1])
            weights[key] = torch.from_numpy(uniform.astype(np.float32))
    return weights


def write_adapter(weights: Weights, layout: Layout, folder: Path) -> str:
    """Writes the folder, reads it back, renames it into place, and returns its revision.

    A folder already there is replaced.

    Raises:
        TrainingError: there is nothing to write, a weight is not finite, or the file read back
            differs.
        StorageError: the disk is full or read-only.
    """
    import torch
    from safetensors.torch import save

    check_finite(weights, str(folder))
    tensors = {key: w.detach().to("cpu", torch.float32).contiguous() for key, w in weights.items()}
    if not tensors or any(t.numel() == 0 for t in tensors.values()):
        raise TrainingError("the adapter gathered for saving is empty", where=str(folder))
    with storage_errors(folder), _folder_beside(folder) as temporary:
        # Not save_file: it reports a full disk as a serialisation error of its own.
        (temporary / WEIGHTS).write_bytes(save(tensors, metadata={"format": "pt"}))
        write_json(temporary / CONFIG, layout.config)
        back = load_weights(temporary)
        if back.keys() != tensors.keys() or not all(_same(back[k], tensors[k]) for k in tensors):
            raise TrainingError("the adapter read back is not the one written", where=str(folder))
        with (temporary / WEIGHTS).open("rb") as file:
            os.fsync(file.fileno())
        _replace(temporary, folder)
    return digest_tree(folder)


def gather_adapter(model: Any, name: str) -> dict[str, "Tensor"]:
    """The named adapter's weights under PEFT's saved keys; every rank must call it.

    Under ZeRO-3 a rank holds a share of each weight, and a bare state_dict would be empty.

    Args:
        model: a PEFT model, its parameters possibly partitioned by DeepSpeed.
        name: of the adapter in the model.
    """
    from macaron.engines.adapters import parameters_of

    found = {saved_key(key, name): p for key, p in parameters_of(model, name).items()}
    with _gathered(found.values()):
        return {key: w.detach().to("cpu", copy=True) for key, w in sorted(found.items())}


def save_adapter(model: Any, name: str, layout: Layout, folder: Path, write: bool) -> None:
    """Gathers the named adapter on every rank and writes it on one, where `write` is set.

    Raises:
        TrainingError: nothing was gathered, a weight is not finite, or the file differs.
    """
    weights = gather_adapter(model, name)
    if write:
        write_adapter(weights, layout, folder)


def keep_parent(parent: Path, folder: Path) -> None:
    """The parent itself as the revision of a training that had nothing to train on."""
    with storage_errors(folder), _folder_beside(folder) as temporary:
        whole = temporary / "adapter"
        shutil.copytree(parent, whole)
        _replace(whole, folder)


def load_weights(folder: Path) -> dict[str, "Tensor"]:
    """An adapter's weights by key.

    Raises:
        TrainingError: the file is missing, empty or not safetensors.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / WEIGHTS
    if not path.exists():
        raise TrainingError("the adapter has no weights file", where=str(path))
    try:
        weights: dict[str, Tensor] = load_file(path)
    except SafetensorError as error:
        raise TrainingError(f"the adapter is not safetensors: {error}", where=str(path)) from error
    if not weights:
        raise TrainingError("the adapter's weights file holds no weights", where=str(path))
    return weights


def check_parent(folder: Path, layout: Layout) -> None:
    """Proves that an adapter is of this base and of this shape, its scale included.

    Raises:
        TrainingError: its configuration is missing or differs; the first such field is named.
    """
    path = folder / CONFIG
    found = read_json(path) if path.exists() else {}
    for field in sorted(found.keys() | layout.config.keys()):
        if found.get(field) != layout.config.get(field):
            raise TrainingError(
                f"{field} is {found.get(field)!r}, this job's is {layout.config.get(field)!r}",
                where=str(path),
                mend="train on from an adapter of the same base, rank and alpha",
            )


def check_landed(folder: Path, parent: Path, layout: Layout) -> None:
    """Proves that training moved an adapter and that all of it is in the folder.

    Args:
        folder: of the trained adapter.
        parent: folder of the adapter it started from.
        layout: what an adapter of this base and rank has.

    Raises:
        TrainingError: the file is empty, a key is missing, unknown or of another shape, a weight
            is not finite, every lora_B is zero, or nothing differs from the parent.
    """
    weights, where = load_weights(folder), str(folder)
    _check_keys(weights, layout, where)
    check_finite(weights, where)
    if all(not w.any() for key, w in weights.items() if ".lora_B." in key):
        raise TrainingError("every lora_B is zero: the adapter changes nothing", where=where)
    before = load_weights(parent)
    if before.keys() == weights.keys() and all(_same(before[k], w) for k, w in weights.items()):
        raise TrainingError("the adapter is its parent's copy: training moved nothing", where=where)


def check_finite(weights: Weights, where: str) -> None:
    """Raises TrainingError, naming the first weight that is not finite."""
    for key, weight in weights.items():
        if not weight.isfinite().all():
            raise TrainingError(
                f"{key} is not finite", where=where, mend="lower grpo.lr; the champion is kept"
            )


def _check_keys(weights: Weights, layout: Layout, where: str) -> None:
    expected = layout.shapes
    missing, unknown = expected.keys() - weights.keys(), weights.keys() - expected.keys()
    for said, keys in (("lacks", missing), ("has the unknown", unknown)):
        if keys:
            more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            raise TrainingError(f"the adapter {said} {min(keys)}{more}", where=where)
    for key, shape in expected.items():
        if tuple(weights[key].shape) != shape:
            found = list(weights[key].shape)
            raise TrainingError(f"{key} is {found}, not {list(shape)}", where=where)


def _same(left: "Tensor", right: "Tensor") -> bool:
    return left.shape == right.shape and bool((left == right).all())


def _gathered(parameters: Iterable[Any]) -> AbstractContextManager[Any]:
    partitioned = [p for p in parameters if hasattr(p, "ds_id")]
    if not partitioned:
        return nullcontext()
    from deepspeed import zero

    return cast(AbstractContextManager[Any], zero.GatheredParameters(partitioned))


@contextmanager
def _folder_beside(folder: Path) -> Iterator[Path]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        temporary.chmod(0o755)
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(new: Path, folder: Path) -> None:
    """A folder cannot be renamed over one that has files; the old one goes first."""
    if folder.exists():
        shutil.rmtree(folder)
    new.rename(folder)
