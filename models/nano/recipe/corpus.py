"""The pretraining corpus: train-split tasks answered by the imperfect demonstrator, as token ids.

Invariant: example number i of a seed is the same on every machine and in every process, and no
sealed task ever reaches it. Prompts are rendered by the harness itself, as in serving.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from macaron.environments import environments
from macaron.environments.base import Task
from macaron.harness.prompts import answer_ids, answer_prompt
from macaron.hcp.document import HCP
from macaron.messages import Message
from models.nano.recipe.demonstrator import demonstrate
from models.nano.recipe.turns import PretrainingTurns, raw_prompt

MIX = {"routing": 0.09, "chat": 0.36, "agent": 0.15, "coding": 0.14, "genui": 0.22, "copy": 0.04}
"""Share of the examples by family."""

PROMPT_WEIGHT = 0.1
"""Loss weight of a prompt token; a response token weighs 1."""

_COPY_ORDERS = ("repeat:", "copy this:", "say again:", "write the same:")


@dataclass(frozen=True)
class Example:
    """One rendered conversation."""

    family: str
    ids: list[int]
    """Prompt and response; the response ends with the end of turn."""
    response: int
    """Index of the response's first token in `ids`."""


@dataclass(frozen=True)
class Exchange:
    """One conversation and its answer, as text."""

    family: str
    specialist: str
    messages: tuple[Message, ...]
    answer: str


def exchange(seed: int, number: int) -> Exchange:
    """Exchange `number` of the corpus of `seed`."""
    rng = random.Random(f"{seed}/{number}")
    family = rng.choices(list(MIX), weights=list(MIX.values()))[0]
    if family == "copy":
        return _copying(rng)
    made = PretrainingTurns() if family == "routing" else environments()[family]
    task = made.sample(rng, "train")
    return Exchange(family, task.specialist, task.messages, demonstrate(task, rng))


def encode(tokenizer: Any, hcp: HCP, item: Exchange) -> Example:
    """The exchange as the harness renders it."""
    if item.family == "routing":
        prompt = raw_prompt(tokenizer, hcp, item.messages)
    else:
        prompt = answer_prompt(tokenizer, hcp, item.specialist, item.messages)
    return Example(item.family, [*prompt, *answer_ids(tokenizer, item.answer)], len(prompt))


def texts(hcp: HCP, seed: int, count: int) -> Iterator[str]:
    """Everything said in the first `count` exchanges; what the tokenizer learns from."""
    for number in range(count):
        item = exchange(seed, number)
        yield (
            hcp.router.system
            if item.family == "routing"
            else hcp.specialists[item.specialist].system
        )
        yield from (message["content"] for message in item.messages)
        yield item.answer


def batches(examples: Sequence[Example], micro: int, pad: int) -> Iterator[tuple[Any, Any]]:
    """The examples as (ids, weights) in batches of `micro`, those of one length together.

    Yields:
        ids: int64 [batch, length], padded on the right, which a causal model never sees.
        weights: float32 [batch, length], the loss weight of predicting each token; 0 on padding
            and on the first token.
    """
    import torch

    ordered = sorted(examples, key=lambda example: len(example.ids))
    for start in range(0, len(ordered), micro):
        part = ordered[start : start + micro]
        shape = (len(part), len(part[-1].ids))
        ids, weights = torch.full(shape, pad), torch.zeros(shape)
        for row, example in enumerate(part):
            ids[row, : len(example.ids)] = torch.tensor(example.ids)
            weights[row, 1 : example.response] = PROMPT_WEIGHT
            weights[row, example.response : len(example.ids)] = 1.0
        yield ids, weights


def _copying(rng: random.Random) -> Exchange:
    """A span of some task's words, to be given back as it is."""
    task = _any_task(rng)
    words = rng.choice([task.reference, task.messages[-1]["content"]]).split(" ")
    length = rng.randint(1, min(12, len(words)))
    start = rng.randint(0, len(words) - length)
    span = " ".join(words[start : start + length])
    order: Message = {"role": "user", "content": f"{rng.choice(_COPY_ORDERS)} {span}"}
    return Exchange("copy", task.specialist, (order,), span)


def _any_task(rng: random.Random) -> Task:
    # Not every environment there is: an installed package's own must not change the corpus.
    family = rng.choice([name for name in MIX if name not in ("routing", "copy")])
    return environments()[family].sample(rng, "train")
