"""From a job's files to what the learner is given: token ids, a scorer, labelled turns.

Prompts are rendered by the harness that serves, so that what is trained is what is asked.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.environments import verify
from macaron.environments.base import Task
from macaron.errors import ConfigError, ExperienceError
from macaron.files import read_lines
from macaron.harness.prompts import answer_ids, answer_prompt, answer_text, label_ids, route_prompt
from macaron.hcp.document import HCP
from macaron.learner.data import Example, Scorer, SpecialistData
from macaron.mint.job import SpecialistJob


@dataclass(frozen=True)
class Dataset:
    """One specialist's data, and the answers that its verifier accepts."""

    data: SpecialistData
    references: Sequence[Sequence[int]]
    """Token ids of the tasks' reference answers, in the order of the prompts."""
    tasks: Sequence[Task]


def build(
    specialist: SpecialistJob, hcp: HCP, tokenizer: Any, *, other_hcp: str = "refuse"
) -> Dataset:
    """The specialist's data.

    Args:
        specialist: the job's part.
        hcp: the harness to train under.
        tokenizer: of the base.
        other_hcp: what becomes of examples made under another one: refuse or accept.

    Raises:
        ExperienceError: an example was made under another HCP, which is refused.
        ConfigError: a task is of another specialist, the HCP has no such label, or a line
            cannot be read.
    """
    key = specialist.specialist
    tasks = _tasks(specialist.tasks.path)
    turns = _tasks(specialist.routing.path)
    if strangers := {task.specialist for task in tasks} - {key}:
        raise ConfigError(
            f"has tasks of {sorted(strangers)}, not {key}", where=specialist.tasks.path
        )
    data = SpecialistData(
        prompts=[answer_prompt(tokenizer, hcp, key, task.messages) for task in tasks],
        score=_scorer(tasks, tokenizer),
        examples=_examples(specialist.examples.path, key, hcp, tokenizer, other_hcp),
        routing=_routing(turns, hcp, tokenizer, specialist.routing.path),
        max_tokens=hcp.specialists[key].max_tokens,
        stop_ids=(tokenizer.eos_token_id,),
    )
    return Dataset(data, [answer_ids(tokenizer, task.reference) for task in tasks], tasks)


def _scorer(tasks: Sequence[Task], tokenizer: Any) -> Scorer:
    def score(prompts: Sequence[int], responses: Sequence[Sequence[int]]) -> list[float | None]:
        asked = [tasks[index] for index in prompts]
        answers = [answer_text(tokenizer, response) for response in responses]
        return [found.reward for found in verify(asked, answers)]

    return score


def _tasks(path: str) -> list[Task]:
    return [_read(Task.from_json, value, where) for value, where in _lines(path)]


def _examples(path: str, key: str, hcp: HCP, tokenizer: Any, other_hcp: str) -> list[Example]:
    lines = _lines(path)
    if other_hcp == "refuse":
        _check_harness(lines, hcp.digest)

    def read(value: dict[str, Any]) -> Example:
        weight = float(value.get("weight", 1.0))
        if "prompt_ids" in value:
            return Example(value["prompt_ids"], value["response_ids"], weight)
        prompt = answer_prompt(tokenizer, hcp, key, value["messages"])
        return Example(prompt, answer_ids(tokenizer, value["answer"]), weight)

    return [_read(read, value, where) for value, where in lines]


def _check_harness(lines: Sequence[tuple[Any, str]], digest: str) -> None:
    """Examples that say which harness made them were made under this one."""
    for value, where in lines:
        made = value.get("hcp") if isinstance(value, dict) else None
        if made not in (None, digest):
            raise ExperienceError(
                f"was made under HCP {str(made)[:12]}, and this trains under {digest[:12]}",
                where=where,
                mend='leave it out, or set other_hcp = "accept" in the contract\'s [experience]',
            )


def _routing(turns: Sequence[Task], hcp: HCP, tokenizer: Any, path: str) -> list[Example]:
    labels = {hcp.specialists[key].name: ids for key, ids in label_ids(tokenizer, hcp).items()}
    if unknown := {turn.reference for turn in turns} - labels.keys():
        raise ConfigError(f"the HCP has no specialist named {sorted(unknown)}", where=path)
    return [
        Example(route_prompt(tokenizer, hcp, turn.messages), labels[turn.reference])
        for turn in turns
    ]


def _lines(path: str) -> list[tuple[dict[str, Any], str]]:
    """(JSON value, file:line) of each line."""
    places = [(line, f"{path}:{number}") for number, line in enumerate(read_lines(Path(path)), 1)]
    return [(_read(json.loads, line, where), where) for line, where in places]


def _read(reader: Any, value: Any, where: str) -> Any:
    try:
        return reader(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"unreadable line: {error!r}", where=where) from error
