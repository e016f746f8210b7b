"""The training job: inputs are what their digests say, and decide the result together."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from macaron.errors import ConfigError, DigestError, MacaronError
from macaron.mint.job import TrainingJob, load_job, read_job, write_job
from tests.mint.jobs import make_job


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_job(tmp_path)


def _change(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_a_job_is_read_as_it_was_written(path: Path, tmp_path: Path) -> None:
    job = load_job(path)
    assert load_job(write_job(job, tmp_path / "again.json")) == job


@pytest.mark.parametrize("name", ["tasks", "examples", "routing"])
def test_a_changed_input_is_refused(path: Path, name: str) -> None:
    given = getattr(load_job(path).specialists[1], name)
    Path(given.path).write_text("{}\n")
    with pytest.raises(DigestError, match="recorded as"):
        load_job(path)


def test_a_changed_parent_base_or_harness_is_refused(path: Path) -> None:
    job = load_job(path)
    for file in (
        Path(job.specialists[0].parent.path) / "adapter_model.safetensors",
        Path(job.base) / "model.safetensors",
        Path(job.hcp),
    ):
        before = file.read_bytes()
        file.write_bytes(before.replace(b'"route"', b'"other"') if file.suffix == ".toml" else b"x")
        with pytest.raises(DigestError):
            load_job(path)
        file.write_bytes(before)
    load_job(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v.update(color="red"), "color: "),
        (lambda v: v.update(processes=0), "processes"),
        (lambda v: v.pop("seed"), "seed: field required"),
        (lambda v: v["specialists"].append(v["specialists"][0]), "trained twice"),
        (lambda v: v.update(specialists=[]), "specialists"),
    ],
)
def test_a_faulty_job_is_one_line(
    path: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    _change(path, change)
    with pytest.raises(ConfigError) as error:
        load_job(path)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_no_job_and_no_json_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(MacaronError, match="no such training job"):
        load_job(tmp_path / "job.json")
    (tmp_path / "job.json").write_text("{")
    with pytest.raises(MacaronError, match="not JSON"):
        load_job(tmp_path / "job.json")


DECISIVE: list[dict[str, Any]] = [
    {"base_digest": "0" * 64},
    {"hcp_digest": "0" * 64},
    {"seed": 8},
    {"lora": {"rank": 2, "alpha": 8}},
    {"processes": 1},
    {"dtype": "bfloat16"},
]


def _digests(job: TrainingJob) -> list[str]:
    return [job.inputs_digest(s) for s in job.specialists]


def test_everything_decisive_changes_the_inputs_and_no_path_does(path: Path) -> None:
    job = read_job(path)
    first, second = _digests(job)
    assert first != second
    seen = {first}
    for update in DECISIVE:
        changed = TrainingJob.model_validate(job.model_dump() | update)
        seen.add(_digests(changed)[0])
    for field in ("parent", "tasks", "examples", "routing"):
        value = job.model_dump()
        value["specialists"][0][field]["digest"] = "0" * 64
        changed = TrainingJob.model_validate(value)
        seen.add(_digests(changed)[0])
        # What changes for one specialist leaves the other's training as it was.
        assert _digests(changed)[1] == second
    assert len(seen) == 1 + len(DECISIVE) + 4
    moved = job.model_copy(update={"out": "/elsewhere", "base": "/b", "hcp": "/h", "timeout": 9})
    assert _digests(moved) == [first, second]
