"""From files to the learner's data: the harness's prompts, the environments' rewards."""

import json
from pathlib import Path
from typing import Any

import pytest

from macaron.environments.base import Task
from macaron.errors import ConfigError, ExperienceError
from macaron.harness.prompts import answer_ids, answer_prompt, label_ids, route_prompt
from macaron.hcp.document import HCP, load_hcp
from macaron.mint.dataset import Dataset, build
from macaron.mint.job import Input, SpecialistJob, TrainingJob, load_job
from tests.mint.jobs import make_job
from tests.tiny import tiny_tokenizer


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> TrainingJob:
    return load_job(make_job(tmp_path_factory.mktemp("job"), ("L0", "L1")))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def hcp(job: TrainingJob) -> HCP:
    return load_hcp(Path(job.hcp))


@pytest.fixture
def chat(job: TrainingJob, hcp: HCP, tokenizer: Any) -> Dataset:
    return build(job.specialists[0], hcp, tokenizer)


def _values(given: Input) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(given.path).read_text().split("\n") if line]


def _with(given: SpecialistJob, field: str, path: Path, text: str) -> SpecialistJob:
    path.write_text(text)
    return given.model_copy(update={field: Input.of(path)})


def test_prompts_are_those_that_serving_renders(
    chat: Dataset, job: TrainingJob, hcp: HCP, tokenizer: Any
) -> None:
    tasks = [Task.from_json(v) for v in _values(job.specialists[0].tasks)]
    assert chat.data.prompts == [answer_prompt(tokenizer, hcp, "L0", t.messages) for t in tasks]
    assert chat.data.max_tokens == hcp.specialists["L0"].max_tokens == 6
    assert chat.data.stop_ids == (tokenizer.eos_token_id,)


def test_responses_are_scored_as_their_text(
    chat: Dataset, job: TrainingJob, tokenizer: Any
) -> None:
    wrong = answer_ids(tokenizer, "no idea")
    scores = chat.data.score([0, 1, 0], [chat.references[0], chat.references[1], wrong])
    assert scores == [1.0, 1.0, 0.0]
    # The index says which task: a right answer to another one earns nothing.
    assert chat.data.score([0], [chat.references[1]]) == [0.0]


def test_examples_are_given_as_text_or_as_sampled_ids(
    job: TrainingJob, hcp: HCP, tokenizer: Any, tmp_path: Path
) -> None:
    messages = [{"role": "user", "content": "hi\u2028there"}]
    lines = [
        {"messages": messages, "answer": "hello", "weight": 0.5, "origin": "feedback"},
        {"prompt_ids": [4, 5], "response_ids": [6, 2], "origin": "rollout"},
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    given = _with(job.specialists[0], "examples", tmp_path / "examples.jsonl", text)
    first, second = build(given, hcp, tokenizer).data.examples
    assert first.prompt_ids == answer_prompt(tokenizer, hcp, "L0", messages)  # type: ignore[arg-type]
    assert first.response_ids == answer_ids(tokenizer, "hello") and first.weight == 0.5
    assert (second.prompt_ids, second.response_ids, second.weight) == ([4, 5], [6, 2], 1.0)


def test_an_example_of_another_harness_is_refused_unless_told_otherwise(
    job: TrainingJob, hcp: HCP, tokenizer: Any, tmp_path: Path
) -> None:
    made = {"prompt_ids": [4, 5], "response_ids": [6, 2]}
    lines = [made, made | {"hcp": hcp.digest}, made | {"hcp": "f" * 64}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    given = _with(job.specialists[0], "examples", tmp_path / "e.jsonl", text)
    said = rf"e\.jsonl:3: was made under HCP {'f' * 12}, and this trains under {hcp.digest[:12]}"
    with pytest.raises(ExperienceError, match=said):
        build(given, hcp, tokenizer)
    assert len(build(given, hcp, tokenizer, other_hcp="accept").data.examples) == 3


def test_routing_is_the_route_prompt_and_the_labels_ids(
    chat: Dataset, job: TrainingJob, hcp: HCP, tokenizer: Any
) -> None:
    turn = _values(job.specialists[0].routing)[0]
    first = chat.data.routing[0]
    assert first.prompt_ids == route_prompt(tokenizer, hcp, turn["messages"])
    labels = {hcp.specialists[k].name: ids for k, ids in label_ids(tokenizer, hcp).items()}
    assert first.response_ids == labels[turn["reference"]]


def test_a_label_that_the_harness_has_not_is_an_error(
    job: TrainingJob, hcp: HCP, tokenizer: Any, tmp_path: Path
) -> None:
    turn = _values(job.specialists[0].routing)[0] | {"reference": "poetry"}
    given = _with(job.specialists[0], "routing", tmp_path / "r.jsonl", json.dumps(turn) + "\n")
    with pytest.raises(ConfigError, match=r"no specialist named \['poetry'\]"):
        build(given, hcp, tokenizer)


def test_another_specialists_tasks_are_an_error(job: TrainingJob, hcp: HCP, tokenizer: Any) -> None:
    mixed = job.specialists[0].model_copy(update={"tasks": job.specialists[1].tasks})
    with pytest.raises(ConfigError, match=r"has tasks of \['L1'\], not L0"):
        build(mixed, hcp, tokenizer)


@pytest.mark.parametrize("line", ["{", '{"answer": "x"}', '["a"]', '{"prompt_ids": [1]}'])
def test_an_unreadable_line_is_named(
    job: TrainingJob, hcp: HCP, tokenizer: Any, tmp_path: Path, line: str
) -> None:
    good = '{"prompt_ids": [1], "response_ids": [2]}\n'
    given = _with(job.specialists[0], "examples", tmp_path / "e.jsonl", good + line + "\n")
    with pytest.raises(ConfigError, match=r"e\.jsonl:2: unreadable line"):
        build(given, hcp, tokenizer)
