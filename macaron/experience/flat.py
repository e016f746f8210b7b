"""Flat columns of an experience table: what the suite in contracts/experience.json speaks of.

Great Expectations gives silently wrong answers on nested columns, so that every check of a nested
one is computed here with Arrow, one value a row, and no nested column goes on.
"""

import json
from datetime import UTC, datetime
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from macaron.messages import Role

_CHUNK = 65536
_ROUNDING = 1e-5
"""A log-probability may round to this much above 0."""
_COPIED = (
    "id",
    "session",
    "source",
    "specialist",
    "pair",
    "hcp",
    "adapter",
    "environment",
    "kind",
    "reward",
)


def flat_columns(table: pa.Table, hcp: str, pair: str, now: datetime | None = None) -> pa.Table:
    """One flat row per row, in order; what a column means is said where it is made.

    Args:
        table: in `SCHEMA`.
        hcp: digest of the harness that tonight's rollouts must have been made under.
        pair: id of the pair that they must have been made by.
        now: the moment that no turn may be after; None: this one.
    """
    moment = (now or datetime.now(UTC)).timestamp()
    batches = table.to_batches(max_chunksize=_CHUNK) or [_empty(table.schema)]
    return pa.concat_tables([_flat(batch, hcp, pair, moment) for batch in batches])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _flat(batch: pa.RecordBatch, hcp: str, pair: str, moment: float) -> pa.Table:
    return pa.table(
        {
            **{name: batch[name] for name in _COPIED},
            "age_seconds": _age(batch["created_at"], moment),
            **_messages(batch),
            **_tokens(batch),
            **_reward(batch),
            **_feedback(batch["feedback"]),
            "task_is_json": pa.array([_is_json(t) for t in batch["task"].to_pylist()], pa.bool_()),
            **_policy(batch, hcp, pair),
        }
    )


def _age(created_at: pa.Array, moment: float) -> Any:
    microseconds = pc.cast(created_at, pa.int64())
    return pc.subtract(moment, pc.divide(pc.cast(microseconds, pa.float64()), 1e6))


def _messages(batch: pa.RecordBatch) -> dict[str, Any]:
    """`messages`: how many; `odd_roles`: how many of no known role; `last_role`;
    `empty_answer`: no text and no tool call where an answer is due, or where that was rewarded."""
    messages = batch["messages"]
    each = pc.list_flatten(messages)
    role = pc.struct_field(each, "role")
    text = pc.utf8_trim_whitespace(pc.fill_null(pc.struct_field(each, "content"), ""))
    calls = pc.fill_null(pc.list_value_length(pc.struct_field(each, "tool_calls")), 0)
    silent = pc.and_(pc.equal(text, ""), pc.equal(calls, 0))
    last = _last(messages)
    # A policy may stop at once: as a rollout that earned nothing, that is data.
    due = pc.or_(
        pc.not_equal(batch["source"], "rollout"),
        pc.greater(pc.fill_null(batch["reward"], 0.0), 0.0),
    )
    legal = pc.is_in(role, value_set=pa.array(get_args(Role)))
    return {
        "messages": pc.list_value_length(messages),
        "odd_roles": _count(messages, pc.invert(legal)),
        "last_role": role.take(last),
        "empty_answer": pc.and_(due, silent.take(last)),
    }


def _tokens(batch: pa.RecordBatch) -> dict[str, Any]:
    """`tokens`: how many; `equal_lengths`: of ids, mask and log-probabilities;
    `negative_tokens`; `sampled_tokens`: how many the mask says the policy sampled (null without
    tokens); `odd_logprobs`: how many are positive or not finite; `prompt_logprobs`: how many
    outside the mask are not 0, so that mask and log-probabilities are of different tokens."""
    ids, mask, logprobs = batch["token_ids"], batch["loss_mask"], batch["logprobs"]
    tokens = pc.list_value_length(ids)
    equal = pc.and_(
        pc.equal(tokens, pc.list_value_length(mask)),
        pc.equal(tokens, pc.list_value_length(logprobs)),
    )
    values = pc.list_flatten(logprobs).to_numpy(zero_copy_only=False)
    odd = ~np.isfinite(values) | (values > _ROUNDING)
    sampled = _count(mask, pc.list_flatten(mask))
    return {
        "tokens": tokens,
        "equal_lengths": equal,
        "negative_tokens": _count(ids, pc.less(pc.list_flatten(ids), 0)),
        "sampled_tokens": pc.if_else(pc.greater(tokens, 0), sampled, None),
        "odd_logprobs": _count(logprobs, odd),
        "prompt_logprobs": _prompt_logprobs(mask, logprobs, equal),
    }


def _prompt_logprobs(mask: pa.Array, logprobs: pa.Array, equal: pa.Array) -> pa.Array:
    counts = np.zeros(len(mask), np.int64)
    rows = np.flatnonzero(equal.to_numpy(zero_copy_only=False))
    outside = pc.invert(pc.list_flatten(mask.take(pa.array(rows))))
    aligned = logprobs.take(pa.array(rows))
    wrong = pc.and_(outside, pc.not_equal(pc.list_flatten(aligned), 0.0))
    counts[rows] = _count(aligned, wrong).to_numpy(zero_copy_only=False)
    return pa.array(counts)


def _reward(batch: pa.RecordBatch) -> dict[str, Any]:
    """`reward_is_number`: neither NaN nor infinite (null without a reward);
    `reward_matches_validity`: valid exactly where there is a reward;
    `odd_components`: how many are missing, not finite or outside [0, 1]."""
    reward, valid = batch["reward"], batch["reward_valid"]
    components = batch["reward_components"]
    # A map is a list of entries; seen as one it can be flattened.
    pairs = pc.cast(
        components, pa.list_(pa.struct([("key", pa.string()), ("value", pa.float32())]))
    )
    values = pc.fill_null(pc.struct_field(pc.list_flatten(pairs), "value"), float("nan"))
    numbers = values.to_numpy(zero_copy_only=False)
    return {
        "reward_is_number": pc.is_finite(reward),
        "reward_matches_validity": pc.equal(pc.is_valid(reward), valid),
        "odd_components": _count(pairs, ~((numbers >= 0) & (numbers <= 1))),
    }


def _feedback(feedback: pa.Array) -> dict[str, Any]:
    """`rating` and `outcome` as given; `correction_characters`, null without one."""
    correction = pc.utf8_trim_whitespace(pc.struct_field(feedback, "correction"))
    return {
        "rating": pc.struct_field(feedback, "rating"),
        "outcome": pc.struct_field(feedback, "outcome"),
        "correction_characters": pc.utf8_length(correction),
    }


def _policy(batch: pa.RecordBatch, hcp: str, pair: str) -> dict[str, Any]:
    """Of rollouts only, null elsewhere: `rollout_tokens`, how many; `rollout_hcp_is_ours` and
    `rollout_pair_is_ours`."""
    rollout = pc.equal(batch["source"], "rollout")

    def of_rollouts(values: Any) -> Any:
        return pc.if_else(rollout, values, None)

    return {
        "rollout_tokens": of_rollouts(pc.list_value_length(batch["token_ids"])),
        "rollout_hcp_is_ours": of_rollouts(pc.fill_null(pc.equal(batch["hcp"], hcp), False)),
        "rollout_pair_is_ours": of_rollouts(pc.fill_null(pc.equal(batch["pair"], pair), False)),
    }


def _last(lists: pa.Array) -> pa.Array:
    """Index of each row's last element in the flattened column; null where there is none."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    ends = pc.subtract(pc.cumulative_sum(pc.cast(lengths, pa.int64())), 1)
    return pc.if_else(pc.greater(lengths, 0), ends, None)


def _count(lists: pa.Array, flags: Any) -> pa.Array:
    """How many of each row's elements are flagged; a missing element is not."""
    if isinstance(flags, pa.Array):
        flags = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    return pa.array(np.bincount(parents[flags], minlength=len(lists)).astype(np.int64))


def _is_json(text: str | None) -> bool | None:
    """Whether the task is a JSON object; None without a task."""
    if text is None:
        return None
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
