"""Adapter revisions: the same weights give the same bytes, and what did not land is an error."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from macaron.errors import TrainingError
from macaron.files import digest_tree
from macaron.mint.layout import CONFIG, WEIGHTS, Layout, adapter_layout
from macaron.mint.revision import (
    check_landed,
    gather_adapter,
    identity_adapters,
    keep_parent,
    load_weights,
    write_adapter,
)
from macaron.profile import LoraConfig
from tests.tiny import tiny_base

LORA = LoraConfig(rank=4, alpha=8)
PINNED = [0.10997997969388962, 0.12309230864048004, -0.1429394632577896]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def layout(base: Path) -> Layout:
    return adapter_layout(base, LORA)


@pytest.fixture
def parent(base: Path, tmp_path: Path) -> Path:
    identity_adapters(base, LORA, tmp_path, ["L0"], seed=1)
    return tmp_path / "L0"


def _trained(parent: Path, layout: Layout, folder: Path, **changes: torch.Tensor) -> Path:
    weights = {k: w + 0.01 for k, w in load_weights(parent).items()}
    write_adapter(weights | changes, layout, folder)
    return folder


def _spoil(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    """What a faulty writer would leave: not through our own writer, which refuses."""
    save_file(weights, folder / WEIGHTS)


def test_identity_adapters_are_named_by_content(base: Path, tmp_path: Path) -> None:
    first = identity_adapters(base, LORA, tmp_path / "a", ["L0", "L1"], seed=1)
    again = identity_adapters(base, LORA, tmp_path / "b" / "c", ["L1", "L0"], seed=1)
    other = identity_adapters(base, LORA, tmp_path / "d", ["L0", "L1"], seed=2)
    assert first == again
    assert first["L0"] == digest_tree(tmp_path / "a" / "L0")
    assert len({*first.values(), *other.values()}) == 4


def test_an_identity_adapter_has_the_weights_it_has_on_every_machine(
    base: Path, tmp_path: Path
) -> None:
    # The base's digest is in the configuration, so that the weights are what can be pinned.
    identity_adapters(base, LORA, tmp_path, ["L0"], seed=1)
    a = load_weights(tmp_path / "L0")[
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    ]
    assert a.shape == (4, 32)
    assert a.flatten()[:3].tolist() == pytest.approx(PINNED, abs=0)


def test_no_path_of_the_machine_is_in_the_config(base: Path, parent: Path) -> None:
    text = (parent / CONFIG).read_text()
    assert str(base) not in text and "/" not in text
    assert json.loads(text)["base_model_name_or_path"].startswith("sha256:")
    assert sorted(path.name for path in parent.iterdir()) == [CONFIG, WEIGHTS]


@pytest.mark.parametrize("architecture", ["qwen3", "llama", "qwen3_moe"])
def test_peft_loads_an_identity_adapter_and_nothing_changes(
    architecture: str, tmp_path: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = tiny_base(tmp_path / "base", architecture)  # type: ignore[arg-type]
    identity_adapters(base, LORA, tmp_path, ["L0"], seed=1)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        bare = AutoModelForCausalLM.from_pretrained(base)(ids).logits
        model = PeftModel.from_pretrained(
            AutoModelForCausalLM.from_pretrained(base), tmp_path / "L0", adapter_name="L0"
        )
        assert torch.equal(model(ids).logits, bare)
        # And every weight of the file was taken, A included.
        gathered = gather_adapter(model, "L0")
    on_disk = load_weights(tmp_path / "L0")
    assert gathered.keys() == on_disk.keys()
    assert all(torch.equal(gathered[k], on_disk[k]) for k in on_disk)


def test_a_trained_adapter_lands(parent: Path, layout: Layout, tmp_path: Path) -> None:
    check_landed(_trained(parent, layout, tmp_path / "new"), parent, layout)


def test_writing_replaces_the_folder_and_leaves_nothing_beside_it(
    parent: Path, layout: Layout, tmp_path: Path
) -> None:
    _trained(parent, layout, tmp_path / "new")
    (tmp_path / "new" / "stray").write_text("from an older run")
    once = _trained(parent, layout, tmp_path / "new")
    assert sorted(p.name for p in once.iterdir()) == [CONFIG, WEIGHTS]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["L0", "new"]


def test_an_empty_file_has_not_landed(parent: Path, layout: Layout, tmp_path: Path) -> None:
    new = _trained(parent, layout, tmp_path / "new")
    (new / WEIGHTS).write_bytes(b"")
    with pytest.raises(TrainingError, match="not safetensors"):
        check_landed(new, parent, layout)
    # The 40 bytes that ZeRO-3 with a bare state_dict leaves.
    _spoil(new, {})
    with pytest.raises(TrainingError, match="holds no weights"):
        check_landed(new, parent, layout)
    (new / WEIGHTS).unlink()
    with pytest.raises(TrainingError, match="no weights file"):
        check_landed(new, parent, layout)


def test_missing_and_unknown_keys_are_named(parent: Path, layout: Layout, tmp_path: Path) -> None:
    new = _trained(parent, layout, tmp_path / "new")
    weights = load_weights(new)
    first = min(weights)
    _spoil(new, {k: w for k, w in weights.items() if k != first})
    with pytest.raises(TrainingError, match=f"lacks {first}"):
        check_landed(new, parent, layout)
    _spoil(new, {**weights, "lm_head.lora_A.weight": torch.ones(4, 32)})
    with pytest.raises(TrainingError, match="has the unknown lm_head"):
        check_landed(new, parent, layout)
    _spoil(new, {**weights, first: torch.ones(3, 3)})
    with pytest.raises(TrainingError, match=r"is \[3, 3\], not"):
        check_landed(new, parent, layout)


def test_another_rank_has_not_landed(base: Path, parent: Path, tmp_path: Path) -> None:
    wider = adapter_layout(base, LoraConfig(rank=8, alpha=8))
    with pytest.raises(TrainingError, match=r"is \[4, 64\], not \[8, 64\]"):
        check_landed(parent, parent, wider)


def test_not_finite_is_never_written(parent: Path, layout: Layout, tmp_path: Path) -> None:
    key = max(load_weights(parent))
    bad = torch.full(layout.shapes[key], float("nan"))
    with pytest.raises(TrainingError, match=f"{key} is not finite"):
        _trained(parent, layout, tmp_path / "new", **{key: bad})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["L0"]
    new = _trained(parent, layout, tmp_path / "new")
    _spoil(new, load_weights(new) | {key: bad})
    with pytest.raises(TrainingError, match="not finite"):
        check_landed(new, parent, layout)


def test_zero_lora_b_has_not_landed(parent: Path, layout: Layout, tmp_path: Path) -> None:
    # A has moved, and still nothing would change.
    zeros = {k: torch.zeros(s) for k, s in layout.shapes.items() if ".lora_B." in k}
    with pytest.raises(TrainingError, match="every lora_B is zero"):
        check_landed(_trained(parent, layout, tmp_path / "new", **zeros), parent, layout)


def test_a_copy_of_the_parent_has_not_landed(parent: Path, layout: Layout, tmp_path: Path) -> None:
    new = _trained(parent, layout, tmp_path / "new")
    shutil.copytree(new, tmp_path / "copy")
    with pytest.raises(TrainingError, match="parent's copy"):
        check_landed(tmp_path / "copy", new, layout)


def test_an_adapter_gathered_empty_is_not_written(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="empty"):
        write_adapter({}, layout, tmp_path / "new")
    with pytest.raises(TrainingError, match="empty"):
        write_adapter({"a": torch.empty(0)}, layout, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_kept_parent_has_the_parents_revision(parent: Path, tmp_path: Path) -> None:
    keep_parent(parent, tmp_path / "new")
    assert digest_tree(tmp_path / "new") == digest_tree(parent)
