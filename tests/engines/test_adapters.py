"""Adapters on one base: each lands, none touches another, PEFT agrees with every pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from macaron.engines.adapters import adapter_state, parameters_of
from macaron.engines.base import SampleParams
from macaron.engines.local import load_local
from macaron.errors import ConfigError, DigestError
from tests.engines.conftest import stir

IDS = torch.tensor([[5, 6, 7, 8, 9, 10]])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, bases: dict[str, Path]) -> Path:
    """An adapter as PEFT itself saves it."""
    engine = load_local(bases["qwen3"], {})
    engine.create("saved", rank=4, alpha=16, seed=5)
    stir(engine, "saved")
    folder = tmp_path_factory.mktemp("saved")
    engine.model.save_pretrained(folder, selected_adapters=["saved"])
    return folder / "saved"


def logits(engine: Any, adapter: str | None) -> torch.Tensor:
    engine.set_active(adapter)
    with torch.no_grad():
        found: torch.Tensor = engine.causal(input_ids=IDS).logits
    return found


def test_a_loaded_adapter_is_what_peft_loads(bases: dict[str, Path], saved: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    engine = load_local(bases["qwen3"], {"r1": saved})
    base = AutoModelForCausalLM.from_pretrained(bases["qwen3"])
    theirs = PeftModel.from_pretrained(base, saved)
    with torch.no_grad():
        expected = theirs(input_ids=IDS).logits
        bare = theirs.get_base_model()
        with theirs.disable_adapter():
            without = bare(input_ids=IDS).logits
    assert torch.allclose(logits(engine, "r1"), expected, atol=1e-5)
    assert torch.allclose(logits(engine, None), without, atol=1e-5)
    assert not torch.allclose(expected, without, atol=1e-2)


def test_lean_gradients_are_those_of_peft(make_engine: Callable[..., Any]) -> None:
    from peft.tuners.lora.layer import Linear

    from macaron.engines.adapters import lora_layers

    engine = make_engine(fresh=True)
    parameters = list(parameters_of(engine.model, "one").values())
    for parameter in parameters:
        parameter.requires_grad_(True)
    engine.set_active("one")
    gradients = []
    for _ in range(2):
        loss = engine.causal(input_ids=IDS).logits.square().mean()
        gradients.append(torch.autograd.grad(loss, parameters))
        for layer in lora_layers(engine.model):
            layer.forward = Linear.forward.__get__(layer)
    for ours, theirs in zip(*gradients, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5 * float(theirs.abs().max()))


def test_choosing_an_adapter_never_touches_requires_grad(make_engine: Callable[..., Any]) -> None:
    engine = make_engine()
    for parameter in parameters_of(engine.model, "one").values():
        parameter.requires_grad_(True)
    before = [p.requires_grad for p in engine.model.parameters()]
    for adapter in ("two", None, "one", "two"):
        engine.sample([[1, 2]], adapter, SampleParams(2))
        engine.rank([[1, 2]], [[3]], adapter)
    assert [p.requires_grad for p in engine.model.parameters()] == before


def test_a_change_to_an_adapter_is_sampled_from_at_once(make_engine: Callable[..., Any]) -> None:
    engine, params = make_engine(), SampleParams(8)
    before = engine.sample([[5, 6]], "one", params)
    others = engine.sample([[5, 6]], "two", params)
    stir(engine, "one", size=0.6)
    assert engine.sample([[5, 6]], "one", params) != before
    assert engine.sample([[5, 6]], "two", params) == others


def test_a_fresh_adapter_starts_as_the_base_and_by_its_seed(
    make_engine: Callable[..., Any],
) -> None:
    engine = make_engine()
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        engine.create(name, rank=4, alpha=8, seed=seed)
    assert torch.equal(logits(engine, "a"), logits(engine, None))
    a, b, c = (adapter_state(engine.model, name) for name in "abc")
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert any(not torch.equal(a[k], c[k]) for k in a)


def test_rank_and_alpha_shape_the_adapter(make_engine: Callable[..., Any]) -> None:
    engine = make_engine()
    engine.create("r2", rank=2, alpha=8, seed=0)
    assert {v.shape[0] for k, v in adapter_state(engine.model, "r2").items() if "lora_A" in k} == {
        2
    }
    engine.create("strong", rank=4, alpha=16, seed=0)
    with torch.no_grad():
        for (_, p), q in zip(
            parameters_of(engine.model, "strong").items(),
            parameters_of(engine.model, "one").values(),
            strict=True,
        ):
            p.copy_(q)
    assert not torch.allclose(logits(engine, "strong"), logits(engine, "one"), atol=1e-3)


def test_a_copy_starts_as_its_source(make_engine: Callable[..., Any]) -> None:
    engine = make_engine()
    engine.create("copy", rank=4, alpha=8, seed=9, source="two")
    assert torch.equal(logits(engine, "copy"), logits(engine, "two"))
    stir(engine, "copy", 0.9)
    assert not torch.allclose(logits(engine, "copy"), logits(engine, "two"))


def test_a_name_is_taken_once(make_engine: Callable[..., Any], saved: Path) -> None:
    engine = make_engine()
    with pytest.raises(ConfigError, match="already loaded as 'one'"):
        engine.load("one", saved)
    with pytest.raises(ConfigError, match="already loaded as 'two'"):
        engine.create("two", 4, 8, 0)


def test_an_adapter_that_is_not_there_is_named(make_engine: Callable[..., Any]) -> None:
    engine = make_engine()
    with pytest.raises(ConfigError, match=r"no adapter 'three' is loaded.*one"):
        engine.sample([[1]], "three", SampleParams(1))
    engine.delete("two")
    assert engine.adapters == {"one"}
    with pytest.raises(ConfigError, match="no adapter 'two'"):
        engine.rank([[1]], [[2]], "two")


@pytest.mark.parametrize("fault", ["empty", "missing", "extra", "shape"])
def test_an_adapter_that_does_not_fit_is_refused(
    bases: dict[str, Path], saved: Path, tmp_path: Path, fault: str
) -> None:
    weights = load_file(saved / "adapter_model.safetensors")
    first = next(iter(weights))
    if fault == "empty":
        weights = {}
    elif fault == "missing":
        del weights[first]
    elif fault == "extra":
        weights["stranger"] = weights[first].clone()
    else:
        weights[first] = weights[first][:1].clone()
    (tmp_path / "adapter_config.json").write_text((saved / "adapter_config.json").read_text())
    save_file(weights, tmp_path / "adapter_model.safetensors")
    with pytest.raises(DigestError, match="does not fit the base"):
        load_local(bases["qwen3"], {"r1": tmp_path})


def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no causal LM") as error:
        load_local(tmp_path, {})
    assert "\n" not in str(error.value)
