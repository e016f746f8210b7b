"""Measures a base on sealed items: greedy and sampled success by family and kind, and routing
(the turns and the bare prompt of its own pretraining).

Invariant: every number is over freshly drawn sealed items and carries its count.

    python -m models.nano.recipe.measure [--base DIR] [--items N] [--seed S] [--json FILE]
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from macaron.engines.base import SampleParams
from macaron.engines.local import LocalEngine
from macaron.environments import environments
from macaron.environments.base import Task
from macaron.files import write_json
from macaron.harness.prompts import answer_prompt, answer_text, label_ids
from macaron.hcp.document import HCP, load_hcp
from models.nano.recipe.pretrain import HCP_FILE, SHIPPED
from models.nano.recipe.turns import PretrainingTurns, raw_prompt

FAMILIES = ("chat", "agent", "coding", "genui", "routing")
BATCH = 128
GROUP = 8


@dataclass(frozen=True)
class Row:
    """Success on the items of one family, or of one kind of it."""

    family: str
    kind: str
    items: int
    greedy: float
    """Share of items whose greedy answer is right."""
    low: float
    high: float
    """Wilson 95 % interval of `greedy`."""
    sampled: float | None = None
    """Share of right answers at temperature 1; None for routing, which is ranked."""
    mixed: float | None = None
    """Share of prompts whose group of 8 samples is neither all right nor all wrong."""


def wilson(right: int, items: int, z: float = 1.96) -> tuple[float, float]:
    """The score interval of a share."""
    share, square = right / items, z * z / items
    middle = (share + square / 2) / (1 + square)
    half = z * (share * (1 - share) / items + square / (4 * items)) ** 0.5 / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def measure(base: Path, items: int, groups: int, seed: int) -> list[Row]:
    """Rows of every family, the family's own first (kind "all"), then each kind's."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    engine = LocalEngine(AutoModelForCausalLM.from_pretrained(base), tokenizer.pad_token_id, BATCH)
    hcp = load_hcp(HCP_FILE)
    rows: list[Row] = []
    for name in FAMILIES:
        environment = PretrainingTurns() if name == "routing" else environments()[name]
        rng = random.Random(f"measure/{name}/{seed}")
        tasks = [environment.sample(rng, "sealed") for _ in range(items)]
        if name == "routing":
            answers, samples = _ranked(engine, tokenizer, hcp, tasks), None
        else:
            answers = _answers(engine, tokenizer, hcp, tasks, 0.0, 1)
            some = tasks[:groups]
            many = [task for task in some for _ in range(GROUP)]
            samples = _right(environment, many, _answers(engine, tokenizer, hcp, some, 1.0, GROUP))
        rows += _rows(name, tasks, _right(environment, tasks, answers), samples)
        print(line(next(row for row in rows if row.family == name)), flush=True)
    return rows


def line(row: Row) -> str:
    """A row as text, shares in percent."""
    text = f"{row.family:8} {row.kind:28} {row.items:5} {100 * row.greedy:6.1f}"
    text += f" [{100 * row.low:.0f}-{100 * row.high:.0f}]"
    if row.sampled is not None and row.mixed is not None:
        text += f"   T=1 {100 * row.sampled:5.1f}   mixed {100 * row.mixed:5.1f}"
    return text


def _rows(
    family: str, tasks: Sequence[Task], right: list[bool], samples: list[bool] | None
) -> Iterator[Row]:
    members: dict[str, list[int]] = defaultdict(list, all=list(range(len(tasks))))
    for index, task in enumerate(tasks):
        members[task.kind].append(index)
    for kind in ["all", *sorted(set(members) - {"all"})]:
        of_kind = members[kind]
        hits = sum(right[i] for i in of_kind)
        sampled = mixed = None
        if samples is not None:
            groups = [samples[i * GROUP : (i + 1) * GROUP] for i in of_kind]
            groups = [group for group in groups if group]
            if groups:
                sampled = sum(map(sum, groups)) / (GROUP * len(groups))
                mixed = sum(0 < sum(group) < GROUP for group in groups) / len(groups)
        interval = wilson(hits, len(of_kind))
        yield Row(
            family, kind, len(of_kind), hits / len(of_kind), *interval, sampled=sampled, mixed=mixed
        )


def _right(environment: Any, tasks: Sequence[Task], answers: Sequence[str]) -> list[bool]:
    scores = environment.verify(tasks, answers)
    failed = [score.error for score in scores if not score.valid]
    if failed:
        raise RuntimeError(f"{len(failed)} answers could not be scored, first: {failed[0]}")
    return [score.reward >= 1.0 for score in scores]


def _prompt(tokenizer: Any, hcp: HCP, task: Task) -> list[int]:
    if task.environment == "routing":
        return raw_prompt(tokenizer, hcp, task.messages)
    return answer_prompt(tokenizer, hcp, task.specialist, task.messages)


def _answers(
    engine: LocalEngine, tokenizer: Any, hcp: HCP, tasks: Sequence[Task], temperature: float, n: int
) -> list[str]:
    """`n` answers a task, those of one task together."""
    params = SampleParams(
        max_tokens=hcp.specialists[tasks[0].specialist].max_tokens,
        temperature=temperature,
        stop_ids=(tokenizer.eos_token_id,),
    )
    groups = engine.sample([_prompt(tokenizer, hcp, task) for task in tasks], None, params, n)
    return [answer_text(tokenizer, one.token_ids) for group in groups for one in group]


def _ranked(engine: LocalEngine, tokenizer: Any, hcp: HCP, tasks: Sequence[Task]) -> list[str]:
    """The label that the model gives the most probability after each route prompt."""
    labels = label_ids(tokenizer, hcp)
    prompts = [_prompt(tokenizer, hcp, task) for task in tasks]
    ranks = engine.rank(prompts, list(labels.values()), None)
    names = [hcp.specialists[key].name for key in labels]
    return [names[row.index(max(row))] for row in ranks]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, default=SHIPPED)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--groups", type=int, default=100, help="prompts sampled 8 times")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = measure(arguments.base, arguments.items, arguments.groups, arguments.seed)
    print("\n".join(map(line, rows)))
    if arguments.json:
        write_json(arguments.json, [asdict(row) for row in rows])


if __name__ == "__main__":
    main()
