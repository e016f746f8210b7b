"""The Parquet partitions."""

import os
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from macaron.errors import DigestError, ExperienceError, StorageError
from macaron.experience.schema import SCHEMA, Feedback
from macaron.experience.store import ExperienceStore
from macaron.experience.table import from_table
from macaron.files import digest_bytes
from tests.experience.rows import rollout, turn


@pytest.fixture
def store(tmp_path) -> ExperienceStore:
    return ExperienceStore(tmp_path / "experience")


def _files(store: ExperienceStore) -> list[str]:
    return sorted(str(p.relative_to(store.folder)) for p in store.folder.rglob("*.parquet"))


def test_an_empty_store_reads_as_no_rows(store) -> None:
    assert store.read().schema.equals(SCHEMA) and store.read().num_rows == 0
    assert store.stats().rows == 0 and store.find({"a"}) == {}
    assert store.append([]) == []


def test_the_same_rows_in_any_order_are_one_file_a_day(store) -> None:
    rows = [turn("a"), turn("b", created_at="2026-11-28T23:59:59.999999+00:00"), turn("c")]
    paths = store.append(rows)
    assert store.append(rows[::-1]) == paths
    assert [path.parent.name for path in paths] == ["day=2026-11-28", "day=2026-11-29"]
    assert len(_files(store)) == 2
    assert [row.id for row in from_table(store.read())] == ["b", "a", "c"]


def test_an_id_written_twice_is_read_once(store) -> None:
    store.append([turn("a"), turn("b")])
    store.append([turn("b"), turn("c")])
    assert [row.id for row in from_table(store.read())] == ["a", "b", "c"]
    assert store.stats().rows == 3


def test_the_row_with_the_latest_feedback_counts(store) -> None:
    said = [Feedback(rating=r, at=f"2026-11-{d}T12:00:00+00:00") for r, d in ((1, 29), (-1, 30))]
    store.append([turn("a", feedback=said[1])])
    store.append([turn("a")])
    store.append([turn("a", feedback=said[0])])
    assert from_table(store.read())[0].feedback == said[1]
    assert store.find({"a", "z"})["a"].feedback == said[1]


def test_since_gives_what_became_known_since(store) -> None:
    old = turn("old", created_at="2026-11-01T00:00:00+00:00")
    at = "2026-11-29T10:00:00+00:00"
    judged = turn("judged", created_at=old.created_at, feedback=Feedback(rating=1, at=at))
    store.append([old, judged, turn("before"), turn("after", created_at=at)])
    store.append([turn("before", created_at="2026-11-29T09:59:59+00:00")])
    rows = store.read(since=datetime(2026, 11, 29, 10, tzinfo=UTC))
    assert {row.id for row in from_table(rows)} == {"judged", "before", "after"}
    rows = store.read(since=datetime(2026, 11, 29, 10, 0, 1, tzinfo=UTC))
    assert rows.num_rows == 0


def test_since_does_not_open_earlier_days(store) -> None:
    (early,) = store.append([turn("a", created_at="2026-11-01T00:00:00+00:00")])
    store.append([turn("b")])
    early.write_bytes(b"not Parquet")
    since = datetime(2026, 11, 2, tzinfo=UTC)
    assert [row.id for row in from_table(store.read(since=since))] == ["b"]
    with pytest.raises(DigestError, match="name"):
        store.read()


def test_sources_are_chosen(store) -> None:
    store.append([turn("a"), rollout("b"), turn("c", source="import")])
    rows = from_table(store.read(sources=("rollout", "import")))
    assert {row.id for row in rows} == {"b", "c"}
    assert store.read(sources=()).num_rows == 0


def test_stats_count_each_turn_once(store) -> None:
    store.append([turn("a", feedback=Feedback(rating=1)), rollout("b"), rollout("c")])
    store.append([rollout("c"), rollout("d", reward=None, reward_valid=False, specialist="L2")])
    stats = store.stats()
    assert stats.by_source == {"rollout": 3, "served": 1}
    assert stats.by_specialist == {"L1": 3, "L2": 1}
    assert stats.by_day == {"2026-11-29": 4}
    assert (stats.with_feedback, stats.with_reward, stats.files) == (1, 2, 2)
    assert stats.bytes == sum(p.stat().st_size for p in store.folder.rglob("*.parquet"))


def test_a_flipped_byte_is_found(store) -> None:
    (path,) = store.append([turn("a")])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DigestError, match=path.name):
        store.read()
    store.append([turn("a")])
    assert store.read().num_rows == 1


def test_a_foreign_schema_is_named(store) -> None:
    buffer = pa.BufferOutputStream()
    pq.write_table(SCHEMA.empty_table().drop_columns(["seed"]), buffer)
    data = buffer.getvalue().to_pybytes()
    path = store.folder / "day=2026-11-29" / f"part-{digest_bytes(data)[:32]}.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    with pytest.raises(ExperienceError, match="field messages where seed belongs"):
        store.read()


def test_a_half_written_file_is_never_read(store) -> None:
    store.append([turn("a")])
    (store.folder / "day=2026-11-29" / ".part-x.parquet.1234").write_bytes(b"PAR1")
    assert store.read().num_rows == 1


def test_a_row_that_does_not_fit_writes_nothing(store) -> None:
    with pytest.raises(ExperienceError):
        store.append([turn("a"), turn("b", token_ids=(2**40,))])
    assert not store.folder.exists()


def test_a_full_disk_is_one_line(store, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="disk is full"):
        store.append([turn("a")])
    assert _files(store) == []
