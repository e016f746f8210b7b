"""Pairs on disk: whole or absent, named by their parts, judged once."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from macaron.errors import DigestError, RegistryError, StorageError
from macaron.pair import adapter_path, load_pair
from macaron.registry import copy
from macaron.registry.pairs import WEIGHTS, PairStore
from tests.registry.parts import HCP, ROOT, adapters, make_pair, make_verdict


@pytest.fixture
def store(tmp_path: Path) -> PairStore:
    return PairStore(tmp_path / "pairs")


def test_create_is_idempotent_and_named_by_content(store: PairStore, tmp_path: Path) -> None:
    pair = make_pair(store, tmp_path, 1.0)
    before = {p: p.stat().st_mtime_ns for p in store.folder(pair.id).rglob("*")}
    assert make_pair(store, tmp_path, 1.0) == pair
    assert {p: p.stat().st_mtime_ns for p in store.folder(pair.id).rglob("*")} == before
    other = make_pair(store, tmp_path, 2.0)
    assert other.id != pair.id
    assert load_pair(store.folder(pair.id)) == pair == store.get(pair.id[:6])
    assert {p.id for p in store.list()} == {pair.id, other.id}


def test_the_folder_is_as_documented(store: PairStore, tmp_path: Path) -> None:
    folder = store.folder(make_pair(store, tmp_path, 1.0).id)
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    files = ("adapter_config.json", WEIGHTS)
    assert names == {"manifest.json", "hcp.toml"} | {
        f"adapters/L{i}/{name}" for i in range(4) for name in files
    }


def test_prefixes_resolve_when_unique(
    store: PairStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = make_pair(store, tmp_path, 1.0)
    assert store.resolve(pair.id[:4]) == pair.id
    for unknown in ("", "zz"):
        with pytest.raises(RegistryError, match="no such pair"):
            store.resolve(unknown)
    first = [make_pair(store, tmp_path, float(v)).id for v in range(2, 20)]
    letters = [i[0] for i in first]
    shared = next(c for c in letters if letters.count(c) > 1)
    with pytest.raises(RegistryError, match="names several pairs"):
        store.resolve(shared)


@pytest.mark.parametrize("fault", ["missing", "empty file", "no tensors", "zero-size", "cut"])
def test_an_adapter_without_weights_is_refused(
    store: PairStore, tmp_path: Path, fault: str
) -> None:
    """Sharded training saves a 40-byte adapter in silence (DeepSpeed#7900, peft#2892)."""
    import numpy as np

    parts = adapters(tmp_path / "parts", 1.0)
    weights = parts["L2"] / WEIGHTS
    if fault == "missing":
        weights.unlink()
    elif fault == "empty file":
        weights.write_bytes(b"")
    elif fault == "no tensors":
        save_file({}, weights)
    elif fault == "zero-size":
        save_file({"lora_A": np.zeros((2, 0), np.float32)}, weights)
    else:
        weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(DigestError, match=r"L2|no safetensors file"):
        store.create("0" * 64, parts, HCP, None, 0)
    assert store.list() == []


def test_a_flipped_byte_is_found_on_every_load(store: PairStore, tmp_path: Path) -> None:
    pair = make_pair(store, tmp_path, 1.0)
    folder = store.folder(pair.id)
    spoiled = [
        adapter_path(folder, "L3") / WEIGHTS,
        adapter_path(folder, "L0") / "adapter_config.json",
    ]
    for path in spoiled:
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(DigestError, match="digest is"):
            store.get(pair.id)
        with pytest.raises(DigestError, match="digest is"):
            make_pair(store, tmp_path, 1.0)
        path.write_bytes(whole)
    hcp = folder / "hcp.toml"
    hcp.write_text(hcp.read_text().replace("max_tokens = 48", "max_tokens = 49"))
    with pytest.raises(DigestError, match=r"hcp\.toml: digest is"):
        store.get(pair.id)


def test_a_renamed_folder_is_found(store: PairStore, tmp_path: Path) -> None:
    pair = make_pair(store, tmp_path, 1.0)
    other = make_pair(store, tmp_path, 2.0)
    shutil.rmtree(store.folder(other.id))
    (store.root / pair.id).rename(store.root / other.id)
    with pytest.raises((DigestError, RegistryError)):
        store.get(other.id)


def test_a_full_disk_is_one_line_and_leaves_no_pair(
    store: PairStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copy.shutil, "copyfileobj", full)
    with pytest.raises(StorageError, match="the disk is full"):
        make_pair(store, tmp_path, 1.0)
    monkeypatch.undo()
    assert store.list() == []
    make_pair(store, tmp_path, 1.0)


def test_a_kill_while_copying_leaves_nothing_half(store: PairStore, tmp_path: Path) -> None:
    script = f"""
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from macaron.registry import copy, pairs
from macaron.registry.pairs import PairStore
from tests.registry.parts import make_pair
real, left = copy.copy_file, [5]
def dying(source, target):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    real(source, target)
copy.copy_file = pairs.copy_file = dying
make_pair(PairStore(Path({str(store.root)!r})), Path({str(tmp_path)!r}), 1.0)
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    assert store.list() == [] and any((store.root / ".new").rglob("*"))
    pair = make_pair(store, tmp_path, 1.0)
    assert store.get(pair.id) == pair and not (store.root / ".new").exists()


def test_parent_and_generation_fit(store: PairStore, tmp_path: Path) -> None:
    parts = adapters(tmp_path / "parts", 1.0)
    with pytest.raises(RegistryError, match="cannot be generation 2"):
        store.create("0" * 64, parts, HCP, None, 2)


def test_a_pair_is_judged_once(store: PairStore, tmp_path: Path) -> None:
    pair = make_pair(store, tmp_path, 1.0)
    assert store.verdict(pair.id) is None
    verdict = make_verdict(False, pair.id)
    path = store.attach_verdict(pair.id, verdict)
    assert store.attach_verdict(pair.id[:8], verdict) == path
    assert store.verdict(pair.id) == verdict
    assert json.loads(path.read_text())["decision"] == "rejected"
    with pytest.raises(RegistryError, match="already has another verdict"):
        store.attach_verdict(pair.id, make_verdict(True, pair.id))
    with pytest.raises(RegistryError, match="the verdict is of pair elsewhere"):
        store.attach_verdict(pair.id, make_verdict(True, "elsewhere"))
    assert store.get(pair.id) == pair


def test_diff_names_parts_and_hcp_fields(store: PairStore, tmp_path: Path) -> None:
    first = make_pair(store, tmp_path, 1.0)
    hcp = tmp_path / "hcp.toml"
    hcp.write_text(HCP.read_text().replace("max_tokens = 112", "max_tokens = 120"))
    parts = adapters(tmp_path / "parts-1.0", 1.0)
    parts["L1"] = adapters(tmp_path / "new", 9.0)["L1"]
    second = store.create("0" * 64, parts, hcp, first.id, 1)
    lines = [str(d) for d in store.diff(first.id, second.id)]
    assert lines == [
        f"adapters.L1: {first.adapters['L1'][:12]} -> {second.adapters['L1'][:12]}",
        "hcp.specialists.L3.max_tokens: 112 -> 120",
    ]
    assert store.diff(first.id, first.id) == []
