"""One rank's trainer, in this process: what lands, what is kept, and what stops it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from macaron.engines.local import load_local
from macaron.errors import TrainingError
from macaron.files import digest_tree
from macaron.learner.backend import PlainBackend
from macaron.mint.events import Events
from macaron.mint.job import TrainingJob, load_job
from macaron.mint.probe import check_probe
from macaron.mint.result import load_result, load_results
from macaron.mint.trainer import Trainer
from macaron.profile import LoraConfig
from tests.mint.jobs import make_job
from tests.tiny import tiny_base


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "events"
    path.touch()
    yield path


def _run(job: TrainingJob, log: Path) -> list[dict[str, Any]]:
    """Trains every specialist; the events."""
    with log.open("ab") as out:
        trainer = Trainer.start(job, Events(0, out.fileno()), PlainBackend())
        for specialist in job.specialists:
            trainer.train(specialist)
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_each_specialist_lands_and_proves_it_where_it_is_loaded(tmp_path: Path, log: Path) -> None:
    job = load_job(make_job(tmp_path, ("L0", "L1")))
    _run(job, log)
    results = load_results(job)
    assert results is not None and list(results) == ["L0", "L1"]
    engine = load_local(Path(job.base), {r.revision: r.adapter for r in results.values()})
    for key, result in results.items():
        probe = result.probe()
        assert probe is not None and probe.parent == job.specialists[int(key[1])].parent.digest
        check_probe(engine, result.revision, probe)
        assert result.moved and result.summary["example_tokens"] > 0
    assert results["L0"].summary["routing_tokens"] > 0


def test_training_one_leaves_the_other_untouched(tmp_path: Path, log: Path) -> None:
    both = load_job(make_job(tmp_path, ("L0", "L1")))
    parents = [digest_tree(Path(s.parent.path)) for s in both.specialists]
    _run(both, log)
    after = load_results(both)
    assert after is not None
    assert [digest_tree(Path(s.parent.path)) for s in both.specialists] == parents
    # And its training does not depend on what was trained before it in the same process.
    alone = both.model_copy(
        update={"specialists": both.specialists[1:], "out": str(tmp_path / "alone")}
    )
    _run(alone, log)
    found = load_results(alone)
    assert found is not None and found["L1"].revision == after["L1"].revision


def test_a_finished_specialist_is_skipped_until_its_inputs_change(
    tmp_path: Path, log: Path
) -> None:
    job = load_job(make_job(tmp_path, ("L1",)))
    _run(job, log)
    seen = [e["event"] for e in _run(job, log)]
    assert seen == ["specialist", *["step"] * 4, "landed", "skipped"]
    assert load_result(job.model_copy(update={"seed": 8}), job.specialists[0]) is None
    result = load_result(job, job.specialists[0])
    assert result is not None
    (result.adapter / "adapter_model.safetensors").write_bytes(b"half")
    assert load_result(job, job.specialists[0]) is None
    assert [e["event"] for e in _run(job, log)][-1] == "landed"
    again = load_result(job, job.specialists[0])
    assert again is not None and again.revision == result.revision


def test_an_exploding_rate_stops_and_writes_no_adapter(tmp_path: Path, log: Path) -> None:
    job = load_job(make_job(tmp_path, ("L1",), lr=1e30))
    with pytest.raises(TrainingError, match=r"^L1, step \d: .* not finite"):
        _run(job, log)
    assert not (job.folder("L1") / "adapter").exists()
    assert load_result(job, job.specialists[0]) is None


@pytest.mark.parametrize(
    ("lora", "said"),
    [(LoraConfig(rank=2, alpha=8), "lora_alpha is 4"), (LoraConfig(rank=4, alpha=4), "r is 2")],
)
def test_a_parent_of_another_shape_or_scale_is_refused(
    tmp_path: Path, log: Path, lora: LoraConfig, said: str
) -> None:
    job = load_job(make_job(tmp_path, ("L1",)))
    with pytest.raises(TrainingError, match=said):
        _run(job.model_copy(update={"lora": lora}), log)


def test_a_parent_on_another_base_is_refused(tmp_path: Path, log: Path) -> None:
    job = load_job(make_job(tmp_path, ("L1",)))
    other = tiny_base(tmp_path / "other", seed=1)
    with pytest.raises(TrainingError, match="base_model_name_or_path is 'sha256:"):
        _run(job.model_copy(update={"base": str(other)}), log)


def test_the_seed_decides_the_bits(tmp_path: Path, log: Path) -> None:
    job = load_job(make_job(tmp_path, ("L1",)))
    other = job.model_copy(update={"seed": 8, "out": str(tmp_path / "other")})
    _run(job, log)
    _run(other, log)
    first, second = load_results(job), load_results(other)
    assert first is not None and second is not None
    assert first["L1"].revision != second["L1"].revision


def test_nothing_to_train_on_keeps_the_parent(tmp_path: Path, log: Path) -> None:
    job = load_job(make_job(tmp_path, ("L1",), examples=0))
    events = _run(job, log)
    result = load_result(job, job.specialists[0])
    assert result is not None and not result.moved and result.probe() is None
    assert result.revision == job.specialists[0].parent.digest == digest_tree(result.adapter)
    assert result.summary["trained_tokens"] == 0 and "rewards are equal" in result.summary["why"]
    assert events[-1]["event"] == "landed" and events[-1]["moved"] is False


def test_a_sparse_base_trains_like_any_other(tmp_path: Path, log: Path) -> None:
    job = load_job(make_job(tmp_path, ("L1",), architecture="qwen3_moe"))
    _run(job, log)
    result = load_result(job, job.specialists[0])
    assert result is not None and result.moved
