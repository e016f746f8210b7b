"""The route hop: L0 chooses one canonical label; nothing else can come out of it.

Labels are scored, never generated: whatever a text says, the answer is a specialist of the HCP.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from macaron.engines.base import Engine
from macaron.engines.stream import StreamEngine
from macaron.harness.prompts import label_ids, route_prompt
from macaron.hcp.document import HCP
from macaron.messages import Message

ROUTER = "L0"


@dataclass(frozen=True)
class Choice:
    """What the router says of one turn."""

    specialist: str
    """Key of the likeliest label."""
    probabilities: Mapping[str, float]
    """Of every specialist, among the labels."""
    tokens: int = 0
    """Read for it: the prompt's and every label's."""
    ms: float = 0.0

    @property
    def confidence(self) -> float:
        """The chosen label's probability."""
        return self.probabilities[self.specialist]


def route(
    engine: Engine,
    tokenizer: Any,
    hcp: HCP,
    conversations: Sequence[Sequence[Message]],
    adapters: Mapping[str, str],
) -> list[Choice]:
    """The choice for each conversation.

    Args:
        engine: where the base is resident.
        tokenizer: the base's tokenizer.
        hcp: gives the labels; a further specialist needs no code.
        conversations: each ends with the user turn to route.
        adapters: specialist -> adapter revision; L0's routes.
    """
    labels = distinct(label_ids(tokenizer, hcp))
    prompts = [route_prompt(tokenizer, hcp, messages) for messages in conversations]
    scores = engine.rank(prompts, list(labels.values()), adapters.get(ROUTER))
    return [_or_default(labels, row, hcp) for row in scores]


def _or_default(labels: Mapping[str, Sequence[int]], scores: Sequence[float], hcp: HCP) -> Choice:
    try:
        return choose(labels, scores)
    except ValueError:
        return Choice(hcp.router.default, dict.fromkeys(labels, 1 / len(labels)))


async def route_turn(
    engine: StreamEngine,
    tokenizer: Any,
    hcp: HCP,
    messages: Sequence[Message],
    adapters: Mapping[str, str],
) -> Choice:
    """`route` for one conversation on a serving engine."""
    started = time.perf_counter()
    labels = distinct(label_ids(tokenizer, hcp))
    prompt = route_prompt(tokenizer, hcp, messages)
    scores = await engine.rank(prompt, list(labels.values()), adapters.get(ROUTER))
    tokens = len(prompt) + sum(map(len, labels.values()))
    return choose(labels, scores, tokens, 1000 * (time.perf_counter() - started))


def distinct(labels: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Each label up to where no other begins like it: what follows is no choice any more.

    So most routes are one pass over the prompt, whose last token chooses among the labels.

    Args:
        labels: specialist -> token ids, each with an end, so that none is the beginning of another.
    """
    found = {}
    for key, ids in labels.items():
        others = [list(other) for name, other in labels.items() if name != key]
        lengths = range(1, len(ids) + 1)
        alone = (n for n in lengths if all(o[:n] != list(ids[:n]) for o in others))
        found[key] = list(ids[: next(alone, len(ids))])
    return found


def choose(
    labels: Mapping[str, Sequence[int]], scores: Sequence[float], tokens: int = 0, ms: float = 0.0
) -> Choice:
    """The likeliest label; the first of equals.

    Args:
        labels: specialist -> token ids.
        scores: log p of each.
        tokens: read for it.
        ms: it took.

    Raises:
        ValueError: a score is no number.
    """
    if not scores or any(map(math.isnan, scores)):
        raise ValueError("the router's scores are no numbers")
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    keys, total = list(labels), sum(weights)
    probabilities = {key: weight / total for key, weight in zip(keys, weights, strict=True)}
    return Choice(keys[scores.index(top)], probabilities, tokens, ms)
