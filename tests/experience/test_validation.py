"""What may be learned from, and the rest with its reason."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from macaron.contract.document import ExperienceGate
from macaron.errors import ConfigError, ExperienceError
from macaron.experience.expectations import SUITE, failures
from macaron.experience.flat import flat_columns
from macaron.experience.schema import SCHEMA, Feedback, Trajectory
from macaron.experience.selection import select
from macaron.experience.table import from_table, to_table
from macaron.experience.validation import BEFORE, OTHER_HCP, Validation, validate
from macaron.files import digest_file
from tests.experience.rows import HCP, PAIR, chat, rollout, turn

ALL = ExperienceGate(max_quarantined=1, other_hcp="accept")
PROJECT = Path(__file__).parents[2]


def _in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def text_only(key: str, **changes: object) -> Trajectory:
    none: dict[str, object] = {"token_ids": (), "loss_mask": (), "logprobs": ()}
    return turn(key, **{**none, **changes})


def _answer(**message: object) -> dict[str, object]:
    return {"messages": (*chat()[:1], {"role": "assistant", "content": "", **message})}


GOOD = [
    turn("served"),
    rollout("rollout"),
    rollout("failed", reward=0.0, reward_components={}),
    # pains: a verifier that crashed has no reward, and the rest of the row is whole.
    rollout("unscored", reward=None, reward_valid=False, reward_components={}),
    # A policy that stops at once and earns nothing is data.
    rollout("silent", reward=0.0, **_answer()),
    text_only("text", source="import", pair=None, hcp=None, adapter=None),
    text_only("other-hcp", hcp="f" * 64, pair="f" * 16),
    text_only("said", feedback=Feedback(rating=-1, correction="four", outcome="failure")),
    turn(
        "tool",
        **_answer(
            tool_calls=[
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
            ]
        ),
    ),
    turn("task", task="{}"),
]
_CALL_BY_USER = ({"role": "wizard", "content": "x"}, {"role": "assistant", "content": "y"})
BAD = [
    ("reward is NaN or infinite", rollout(reward=math.nan)),
    ("reward is NaN or infinite", rollout(reward=math.inf)),
    ("reward is NaN or infinite", rollout(reward=-math.inf)),
    ("reward outside [0, 1]", rollout(reward=1.5)),
    ("reward outside [0, 1]", rollout(reward=-0.01)),
    ("reward and its validity disagree", rollout(reward=0.5, reward_valid=False)),
    ("reward and its validity disagree", rollout(reward=None, reward_valid=True)),
    ("reward component outside [0, 1]", rollout(reward_components={"a": 1.0, "b": math.nan})),
    ("reward component outside [0, 1]", rollout(reward_components={"a": 2.0})),
    # pains: an empty string scores 1.0.
    ("empty answer", rollout(**_answer())),
    ("empty answer", turn(**_answer(content=" \n"))),
    ("empty answer", text_only("x", source="import", **_answer())),
    # pains: a mask built from the wrong thing trains on zero tokens, or on the wrong ones.
    ("mask selects no token", rollout(loss_mask=(False,) * 4, logprobs=(0.0,) * 4)),
    ("log-probability outside the mask", rollout(loss_mask=(False, False, False, True))),
    ("token ids, mask and log-probabilities differ in length", rollout(loss_mask=(True,))),
    ("token ids, mask and log-probabilities differ in length", rollout(logprobs=())),
    ("token ids, mask and log-probabilities differ in length", turn(token_ids=())),
    ("log-probability positive or not finite", rollout(logprobs=(0.0, 0.0, 0.5, -1.0))),
    ("log-probability positive or not finite", rollout(logprobs=(0.0, 0.0, math.nan, -1.0))),
    ("log-probability positive or not finite", rollout(logprobs=(0.0, 0.0, -math.inf, -1.0))),
    ("negative token id", rollout(token_ids=(1, 2, 3, -4))),
    ("rollout without tokens", rollout(token_ids=(), loss_mask=(), logprobs=())),
    ("other HCP", rollout(hcp="f" * 64)),
    ("other HCP", rollout(hcp=None)),
    # pains: rollouts keep using the first policy after an update.
    ("other pair", rollout(pair="f" * 16)),
    ("HCP is not a digest", turn(hcp="latest")),
    ("pair is not a pair's id", turn(pair="champion")),
    ("adapter is not a digest", turn(adapter="L1")),
    ("unknown source", replace(turn(), source="web")),  # type: ignore[arg-type]
    ("unknown specialist", turn(specialist="L 9")),
    ("unknown role", turn(messages=_CALL_BY_USER)),
    ("last message is not the assistant's", turn(messages=chat()[:1])),
    ("no messages", turn(messages=())),
    ("from the future", turn(created_at=_in_an_hour())),
    ("unknown rating", turn(feedback=Feedback(rating=5))),
    ("unknown outcome", turn(feedback=Feedback(outcome="meh"))),
    ("empty correction", turn(feedback=Feedback(correction=" "))),
    ("task is not JSON", turn(task="{")),
    ("task is not JSON", turn(task="[]")),
    ("id is used twice", rollout()),
    ("id is used twice", rollout()),
]


def _bad_rows() -> list[Trajectory]:
    return [
        replace(row, id="twice" if reason == "id is used twice" else f"bad-{number:02d}")
        for number, (reason, row) in enumerate(BAD)
    ]


@pytest.fixture(scope="module")
def night(tmp_path_factory) -> Validation:
    """Good and bad rows, mixed."""
    rows = sorted([*GOOD, *_bad_rows()], key=lambda row: (len(row.messages), row.id[::-1]))
    return validate(to_table(rows), ALL, HCP, PAIR, tmp_path_factory.mktemp("night") / "out")


@pytest.mark.parametrize("number", range(len(BAD)), ids=[f"{i}-{b[0]}" for i, b in enumerate(BAD)])
def test_a_bad_row_is_quarantined_with_its_reason(night, number) -> None:
    key = _bad_rows()[number].id
    reasons = [r["reason"] for r in night.quarantined.to_pylist() if r["id"] == key]
    assert reasons and all(BAD[number][0] in reason.split("; ") for reason in reasons)


def test_good_rows_are_kept_as_they_are(night) -> None:
    assert sorted(from_table(night.good), key=lambda r: r.id) == sorted(GOOD, key=lambda r: r.id)


def test_every_expectation_of_the_suite_can_fail(night) -> None:
    # `no id`, `no session` and `no time` cannot: the schema refuses such a row before.
    suite = json.loads((PROJECT / SUITE).read_text())
    reasons = {e["meta"]["reason"] for e in suite["expectations"]}
    assert reasons - set(night.reasons) == {"no id", "no session", "no time"}
    assert len(reasons) == len(suite["expectations"])


def test_the_outcome_is_counted_and_written(night) -> None:
    assert night.share == len(BAD) / (len(BAD) + len(GOOD))
    assert list(night.reasons.values()) == sorted(night.reasons.values(), reverse=True)
    assert pq.read_table(night.good_path).equals(night.good)
    # As text, because NaN equals nothing.
    written = pq.read_table(night.quarantine_path)
    assert str(written.to_pylist()) == str(night.quarantined.to_pylist())
    assert night.quarantined.schema.names == [*SCHEMA.names, "reason"]
    assert night.digests["good"] == digest_file(night.good_path)
    assert night.digests["quarantine"] == digest_file(night.quarantine_path)
    assert night.digests["suite"] == digest_file(PROJECT / SUITE)


def test_the_data_docs_name_the_failed_expectation(night) -> None:
    assert night.docs.name == "index.html" and "Failed" in night.docs.read_text()
    pages = night.docs.parent.glob("validations/**/*.html")
    text = "".join(page.read_text() for page in pages)
    assert "reward_matches_validity" in text and "rollout_hcp_is_ours" in text


def test_the_expectations_see_no_nested_column(night) -> None:
    flat = flat_columns(to_table([turn()]), HCP, PAIR)
    assert not any(pa.types.is_nested(field.type) for field in flat.schema)
    empty = flat_columns(SCHEMA.empty_table(), HCP, PAIR)
    assert empty.schema == flat.schema and empty.num_rows == 0


def test_a_slice_is_checked_like_its_rows() -> None:
    rows = [turn("a", messages=chat() * 3), *GOOD, turn("z", token_ids=(1,) * 9)]
    whole = flat_columns(to_table(rows), HCP, PAIR, datetime(2026, 12, 1, tzinfo=UTC))
    part = flat_columns(to_table(rows)[1:-1], HCP, PAIR, datetime(2026, 12, 1, tzinfo=UTC))
    assert part.equals(whole[1:-1])


def test_rows_of_many_chunks_are_checked_at_their_place(tmp_path) -> None:
    parts = [turn("a"), rollout("b", reward=7.0), turn("c"), rollout("d", hcp=None)]
    table = pa.concat_tables([to_table([row]) for row in parts])
    gate = ExperienceGate(max_quarantined=6 / 8)
    result = validate(table, gate, HCP, PAIR, tmp_path, already_quarantined=4)
    assert [row.id for row in from_table(result.good)] == ["a", "c"]
    assert result.quarantined["reason"].to_pylist() == ["reward outside [0, 1]", "other HCP"]
    assert result.share == 6 / 8 and next(iter(result.reasons)) == BEFORE


def test_quarantined_rows_change_nothing_in_what_is_learned(night) -> None:
    selection = select(night.good)
    assert selection == select(to_table(GOOD))
    assert selection != select(to_table([*GOOD, rollout("more", messages=chat("Why?"))]))


def test_the_gate_stops_after_everything_was_written(tmp_path) -> None:
    rows = [turn("a"), rollout("b", reward=7.0)]
    gate = ExperienceGate(max_quarantined=0.66)
    with pytest.raises(ExperienceError) as caught:
        validate(to_table(rows), gate, HCP, PAIR, tmp_path, already_quarantined=1)
    message = str(caught.value)
    assert "2 of 3 rows" in message and "(1)" in message and "\n" not in message
    assert str(tmp_path / "quarantine.parquet") in message
    assert pq.read_table(tmp_path / "quarantine.parquet").num_rows == 1
    assert pq.read_table(tmp_path / "good.parquet").num_rows == 1
    assert (tmp_path / "data-docs" / "index.html").exists()


def test_turns_of_another_harness_are_refused_and_are_no_fault(tmp_path) -> None:
    """After a promotion with a changed HCP, the turns served before it are under another one."""
    rows = [turn("ours"), rollout("r"), text_only("none", source="import", hcp=None, pair=None)]
    other = [turn(f"served-{n}", hcp="f" * 64, pair="f" * 16) for n in range(5)]
    worse = turn("bad", hcp="f" * 64, task="{")
    strict = ExperienceGate(max_quarantined=0.2)
    night = validate(to_table([*rows, *other, worse]), strict, HCP, PAIR, tmp_path)
    assert sorted(night.good["id"].to_pylist()) == ["none", "ours", "r"]
    said = {row["id"]: row["reason"] for row in night.quarantined.to_pylist()}
    assert said == {f"served-{n}": OTHER_HCP for n in range(5)} | {"bad": "task is not JSON"}
    assert (night.other_hcp, night.refused, night.share) == (5, 5, 1 / 9)
    assert night.reasons == {OTHER_HCP: 5, "task is not JSON": 1}
    with pytest.raises(ExperienceError, match="most often: task is not JSON"):
        none = ExperienceGate(max_quarantined=0)
        validate(to_table([*rows, *other, worse]), none, HCP, PAIR, tmp_path)


def test_turns_of_another_harness_are_accepted_where_the_contract_says_so(tmp_path) -> None:
    rows = [turn("ours"), turn("other", hcp="f" * 64)]
    night = validate(to_table(rows), ALL, HCP, PAIR, tmp_path)
    assert (night.good.num_rows, night.other_hcp, night.refused) == (2, 1, 0)


def test_no_rows_are_no_fault(tmp_path) -> None:
    result = validate(SCHEMA.empty_table(), ExperienceGate(max_quarantined=0), HCP, PAIR, tmp_path)
    assert (result.share, result.good.num_rows, result.reasons) == (0.0, 0, {})
    assert select(result.good).examples == ()


def test_another_schema_is_refused(tmp_path) -> None:
    with pytest.raises(ExperienceError, match="seed"):
        validate(SCHEMA.empty_table().drop_columns(["seed"]), ALL, HCP, PAIR, tmp_path)


_UNIQUE = {
    "type": "expect_column_values_to_be_unique",
    "kwargs": {"column": "mood"},
    "meta": {"reason": "x"},
}


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        (None, "no such suite"),
        ("{", "not a suite"),
        ("[]", "not a suite"),
        ({"name": "s", "expectations": [{**_UNIQUE, "meta": {}}]}, "no reason"),
        ({"name": "s", "expectations": [{**_UNIQUE, "type": "expect_joy"}]}, "no known type"),
        ({"name": "s", "expectations": [_UNIQUE]}, "does not name rows"),
    ],
)
def test_a_suite_that_cannot_be_run_is_one_clear_error(tmp_path, suite, said) -> None:
    path = tmp_path / "suite.json"
    if suite is not None:
        path.write_text(suite if isinstance(suite, str) else json.dumps(suite))
    with pytest.raises(ConfigError, match=said) as caught:
        failures(flat_columns(to_table([turn()]), HCP, PAIR), path, tmp_path / "docs")
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
