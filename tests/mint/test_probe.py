"""The landing proof: a lost, mistaken or stale adapter does not answer as the probe says."""

from pathlib import Path

import pytest

from macaron.engines.local import LocalEngine, load_local
from macaron.errors import ConfigError, TrainingError
from macaron.mint.layout import adapter_layout
from macaron.mint.probe import Probe, check_probe, choose, compare, load_probe, measure, write_probe
from macaron.mint.revision import identity_adapters, load_weights, write_adapter
from macaron.profile import LoraConfig
from tests.tiny import tiny_base

LORA = LoraConfig(rank=4, alpha=8)
TEXTS = choose([[5, 6, 7], [9], [40, 41], [50], [60]], [[8] * 20, [10], [42, 43], [51], [61]])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> LocalEngine:
    """A base with an adapter "parent", one trained from it, and one of another training."""
    folder = tmp_path_factory.mktemp("probe")
    base = tiny_base(folder / "base")
    identity_adapters(base, LORA, folder, ["parent"], seed=1)
    layout, start = adapter_layout(base, LORA), load_weights(folder / "parent")
    for name, by in (("trained", 0.02), ("other", 0.05)):
        write_adapter({k: w + by for k, w in start.items()}, layout, folder / name)
    return load_local(base, {n: folder / n for n in ("parent", "trained", "other")})


@pytest.fixture
def probe(engine: LocalEngine) -> Probe:
    return Probe(
        revision="trained",
        parent="parent",
        texts=TEXTS,
        trained=measure(engine, "trained", TEXTS),
        before=measure(engine, "parent", TEXTS),
    )


def test_a_few_short_texts_are_probed() -> None:
    assert [len(answer) for _, answer in TEXTS] == [8, 1, 2, 1]


def test_a_landed_adapter_agrees(engine: LocalEngine, probe: Probe, tmp_path: Path) -> None:
    check_probe(engine, "trained", load_probe(write_probe(probe, tmp_path / "probe.json")))


@pytest.mark.parametrize("loaded", ["parent", "other"])
def test_another_adapter_under_the_trained_ones_name_is_found(
    engine: LocalEngine, probe: Probe, loaded: str
) -> None:
    mistaken = probe.model_copy(update={"revision": loaded})
    with pytest.raises(TrainingError, match="nats a token, was trained to"):
        check_probe(engine, loaded, mistaken)


def test_a_probe_of_another_revision_is_refused(engine: LocalEngine, probe: Probe) -> None:
    with pytest.raises(TrainingError, match="the probe is of adapter trained"):
        check_probe(engine, "other", probe)


def test_an_adapter_that_answers_as_its_parent_did_not_land(
    engine: LocalEngine, probe: Probe
) -> None:
    moved = probe.model_copy(update={"trained": tuple(p + 5e-5 for p in probe.before)})
    with pytest.raises(TrainingError, match="did not land"):
        compare(moved, probe.before)


def test_a_training_too_small_to_measure_is_no_fault(engine: LocalEngine, probe: Probe) -> None:
    check_probe(engine, "trained", probe.model_copy(update={"before": probe.trained}))


def test_a_nan_is_no_agreement(engine: LocalEngine, probe: Probe) -> None:
    nan = (*probe.trained[:-1], float("nan"))
    with pytest.raises(TrainingError, match="was trained to nan"):
        check_probe(engine, "trained", probe.model_copy(update={"trained": nan}))


def test_a_missing_probe_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no probe was written"):
        load_probe(tmp_path / "probe.json")
    (tmp_path / "probe.json").write_text("{}")
    with pytest.raises(ConfigError, match="revision"):
        load_probe(tmp_path / "probe.json")
