"""Selection: what validated experience does to the next training.

Good answers become examples to imitate, and failures steer which kinds of task are drawn. The
outcome depends on the rows alone, neither on their order nor on the time.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import pyarrow as pa

from macaron.experience.outcome import Outcome
from macaron.experience.schema import Trajectory
from macaron.experience.steering import kind_rates, kind_weights
from macaron.experience.table import from_table
from macaron.files import digest_value
from macaron.messages import Message

Origin = Literal["correction", "verified", "praised"]

WEIGHTS: Mapping[Origin, float] = {"correction": 1.0, "verified": 0.5, "praised": 0.5}


class Verdict(Protocol):
    """What a verifier says of one answer."""

    @property
    def reward(self) -> float | None:
        """In [0, 1]; None where the verifier itself failed."""
        ...


Verify = Callable[[Sequence[dict[str, Any]], Sequence[str]], Sequence[Verdict]]
"""(tasks as JSON values, answers) -> one verdict each."""


@dataclass(frozen=True)
class Selected:
    """An answer to imitate.

    Where it was sampled and its tokens are known, `prompt_ids` and `response_ids` are the stored
    ones; else both are empty and the answer is to be tokenised, which no sampler has done.
    """

    trajectory: str
    specialist: str
    origin: Origin
    weight: float
    messages: tuple[Message, ...]
    """The conversation up to the answer."""
    answer: str
    prompt_ids: tuple[int, ...] = ()
    response_ids: tuple[int, ...] = ()
    hcp: str | None = None
    """Digest of the harness that it was made under; None where none is known."""

    def to_json(self) -> dict[str, Any]:
        """{prompt_ids, response_ids} or {messages, answer}, with weight, origin and trajectory,
        and the HCP where it is known."""
        content: dict[str, Any] = (
            {"prompt_ids": list(self.prompt_ids), "response_ids": list(self.response_ids)}
            if self.response_ids
            else {"messages": list(self.messages), "answer": self.answer}
        )
        origin = {"origin": self.origin, "trajectory": self.trajectory}
        made = {"hcp": self.hcp} if self.hcp else {}
        return {**content, "weight": self.weight, **origin, **made}


@dataclass(frozen=True)
class Selection:
    """What one night's experience does."""

    examples: tuple[Selected, ...]
    """By specialist, then by trajectory id."""
    kind_weights: dict[str, dict[str, float]]
    """Environment -> kind -> how often to draw it, 1 on average; kinds not named get 1."""
    report: dict[str, Any]
    """JSON values: rows, examples, by_origin, by_specialist, dropped, kinds."""


@dataclass(frozen=True)
class _Candidate:
    example: Selected
    task: dict[str, Any] | None
    """To verify the answer by, where that is still to be done."""


def select(table: pa.Table, verify: Verify | None = None, *, hcp: str | None = None) -> Selection:
    """The examples and the steering in a table of validated rows.

    Corrections count 1; answers verified (reward 1) or praised count 0.5. A correction or a
    praised answer whose row carries a task is put before `verify`, and only a reward of 1 keeps
    it: users err too. Of equal prompts and answers of a specialist, one is kept.

    Args:
        table: validated, in `SCHEMA`.
        verify: the environments' verifier; None: nothing is verified.
        hcp: digest of the harness to train under; token ids from another one are not used, as
            their prompt is not what the specialist will see. None: all are.
    """
    rows = sorted(from_table(table), key=lambda row: row.id)
    dropped: Counter[str] = Counter()
    candidates = [c for row in rows if (c := _candidate(row, verify, hcp, dropped)) is not None]
    examples = _once(_verified(candidates, verify, dropped), dropped)
    rates = kind_rates(rows)
    report = {
        "rows": len(rows),
        "examples": len(examples),
        "by_origin": _count(examples, lambda e: e.origin, get_args(Origin)),
        "by_specialist": {
            key: _count([e for e in examples if e.specialist == key], lambda e: e.origin)
            for key in sorted({e.specialist for e in examples})
        },
        "dropped": dict(sorted(dropped.items())),
        "kinds": rates,
    }
    return Selection(tuple(examples), kind_weights(rates), report)


def _candidate(
    row: Trajectory, verify: Verify | None, hcp: str | None, dropped: Counter[str]
) -> _Candidate | None:
    outcome = Outcome.of(row)
    origin = _origin(outcome)
    if origin is None:
        if outcome.praised or outcome.verified:
            dropped["signals disagree"] += 1
        return None
    task: dict[str, Any] | None = json.loads(row.task) if row.task else None
    if task and task.get("split") == "sealed":
        dropped["sealed task"] += 1
        return None
    example = _example(row, origin, hcp)
    if not (example.response_ids or example.answer.strip()):
        dropped["no text and no tokens to learn from"] += 1
        return None
    return _Candidate(example, task if verify and origin != "verified" else None)


def _origin(outcome: Outcome) -> Origin | None:
    if outcome.corrected:
        return "correction"
    if outcome.failed:
        return None
    if outcome.verified:
        return "verified"
    return "praised" if outcome.praised else None


def _example(row: Trajectory, origin: Origin, hcp: str | None) -> Selected:
    sampled = origin != "correction"
    last = row.messages[-1]
    # A tool call has no text that could be tokenised as it was sampled.
    text = "" if last.get("tool_calls") else last["content"]
    prompt_ids, response_ids = ((), ()) if not sampled else _token_ids(row, hcp)
    return Selected(
        trajectory=row.id,
        specialist=row.specialist,
        origin=origin,
        weight=WEIGHTS[origin],
        messages=tuple(row.messages[:-1]),
        answer=text if sampled else row.feedback.correction or "",
        prompt_ids=prompt_ids,
        response_ids=response_ids,
        hcp=row.hcp,
    )


def _token_ids(row: Trajectory, hcp: str | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The prompt and the last run of sampled tokens; empty where there is none to be used."""
    mask = list(row.loss_mask)
    if True not in mask or (hcp is not None and row.hcp != hcp):
        return (), ()
    end = len(mask) - mask[::-1].index(True)
    start = end
    while start and mask[start - 1]:
        start -= 1
    return tuple(row.token_ids[:start]), tuple(row.token_ids[start:end])


def _verified(
    candidates: Sequence[_Candidate], verify: Verify | None, dropped: Counter[str]
) -> list[Selected]:
    asked = [c for c in candidates if c.task is not None]
    rewards: dict[str, float | None] = {}
    if verify is not None and asked:
        verdicts = verify([c.task for c in asked if c.task], [c.example.answer for c in asked])
        for candidate, verdict in zip(asked, verdicts, strict=True):
            rewards[candidate.example.trajectory] = verdict.reward
    kept = []
    for candidate in candidates:
        example = candidate.example
        reward = rewards.get(example.trajectory, 1.0)
        if reward is None:
            dropped[f"{example.origin}: the verifier failed"] += 1
        elif reward < 1:
            dropped[f"{example.origin}: rejected by the verifier"] += 1
        else:
            kept.append(example)
    return kept


def _once(examples: Sequence[Selected], dropped: Counter[str]) -> list[Selected]:
    """One of equals: the greatest weight, then the one with tokens, then the smallest id."""
    kept: dict[str, Selected] = {}
    for example in sorted(examples, key=lambda e: (-e.weight, not e.response_ids, e.trajectory)):
        key = digest_value([example.specialist, list(example.messages), example.answer])
        if kept.setdefault(key, example) is not example:
            dropped["same prompt and answer"] += 1
    return sorted(kept.values(), key=lambda e: (e.specialist, e.trajectory))


def _count(
    examples: Sequence[Selected], key: Callable[[Selected], str], names: Sequence[str] = ()
) -> dict[str, int]:
    counts = Counter(dict.fromkeys(names, 0))
    counts.update(key(example) for example in examples)
    return dict(sorted(counts.items()))
