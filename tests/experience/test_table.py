"""Rows to Arrow and back."""

import math
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macaron.errors import ExperienceError
from macaron.experience.schema import SCHEMA, Feedback, Trajectory
from macaron.experience.table import check_schema, from_table, to_table
from tests.experience.rows import turn
from tests.experience.strategies import trajectories


@settings(max_examples=60, deadline=None)
@given(st.lists(trajectories, max_size=4))
def test_a_round_trip_changes_nothing(rows: list[Trajectory]) -> None:
    assert from_table(to_table(rows)) == rows
    assert [Trajectory.from_json(row.to_json()) for row in rows] == rows


def test_a_file_gives_back_the_table(tmp_path) -> None:
    row = turn(feedback=Feedback(rating=1, correction="four", at="2026-11-30T00:00:00+00:00"))
    pq.write_table(to_table([row]), tmp_path / "rows.parquet")
    assert from_table(pq.read_table(tmp_path / "rows.parquet")) == [row]


def test_a_reward_that_is_not_a_number_is_not_lost() -> None:
    rows = from_table(to_table([turn(reward=math.nan), turn(reward=math.inf), turn(reward=None)]))
    assert math.isnan(rows[0].reward) and rows[1].reward == math.inf and rows[2].reward is None


def test_times_of_one_moment_get_one_spelling() -> None:
    spellings = ["2026-11-29T10:00:00Z", "2026-11-29T11:00:00+01:00"]
    rows = from_table(to_table([turn(created_at=text) for text in spellings]))
    assert [row.created_at for row in rows] == ["2026-11-29T10:00:00+00:00"] * 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"token_ids": (1, 2**31)}, "token_ids"),
        ({"session": None}, "session"),
        ({"created_at": "2026-11-29T10:00:00"}, "no time zone"),
        ({"created_at": "yesterday"}, "created_at"),
        ({"messages": ({"role": "user", "content": "half \ud800"},)}, "messages"),
        ({"messages": ({"role": "user"},)}, "messages"),
        ({"feedback": Feedback(rating=1000)}, "feedback"),
        ({"seed": 2**70}, "seed"),
    ],
)
def test_a_value_that_does_not_fit_names_row_and_field(change, said) -> None:
    with pytest.raises(ExperienceError, match="'odd'") as caught:
        to_table([turn("fine"), replace(turn("odd"), **change)])
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema(list(SCHEMA)[:-1], SCHEMA.metadata), "no field timings_ms"),
        (SCHEMA.append(pa.field("mood", pa.string())), "unknown field mood"),
        (SCHEMA.set(11, pa.field("seed", pa.int32())), "seed is int32, not int64"),
        (SCHEMA.set(0, pa.field("id", pa.string())), "id is string, not string not null"),
        (pa.schema([SCHEMA[1], SCHEMA[0], *list(SCHEMA)[2:]], SCHEMA.metadata), "field session"),
        (SCHEMA.with_metadata({"schema_version": "0"}), "schema version is 0, not 1"),
    ],
)
def test_another_schema_is_refused_by_name(schema, said) -> None:
    with pytest.raises(ExperienceError, match="not an experience table") as caught:
        check_schema(schema, "file")
    assert said in str(caught.value)
    with pytest.raises(ExperienceError):
        from_table(schema.empty_table())


def test_later_feedback_overrides_point_by_point() -> None:
    first = Feedback(rating=1, outcome="success", at="2026-11-30T00:00:01+00:00")
    later = Feedback(rating=-1, correction="four", at="2026-11-30T00:00:02+00:00")
    merged = first.updated(later)
    assert (merged.rating, merged.correction, merged.outcome) == (-1, "four", "success")
    assert merged.at == later.at and merged.updated(later) == merged


def test_a_change_gets_a_later_time_whatever_the_clock_did() -> None:
    first = Feedback(rating=1, at="2026-11-30T00:00:01+00:00")
    merged = first.updated(Feedback(rating=-1, at="2026-11-29T00:00:00+00:00"))
    assert merged.rating == -1 and merged.at == "2026-11-30T00:00:01.000001+00:00"
