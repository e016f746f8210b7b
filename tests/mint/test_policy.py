"""The policy record: one pointer a name, and a history that only grows."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from macaron.errors import DigestError
from macaron.mint.policy import PolicyRecord


def test_a_pointer_moves_and_its_history_stays(tmp_path: Path) -> None:
    record = PolicyRecord(tmp_path / "policies")
    assert record.all() == {} and record.history() == []
    assert record.point("L1", "a" * 64, "pair one")
    assert record.point("L2", "b" * 64, "pair one")
    assert record.point("L1", "c" * 64, "pair two")
    assert record.get("L1") == "c" * 64
    moves = [(m["before"], m["revision"], m["reason"]) for m in record.history("L1")]
    assert moves == [(None, "a" * 64, "pair one"), ("a" * 64, "c" * 64, "pair two")]
    assert len(record.history()) == 3


def test_pointing_where_it_points_is_no_move(tmp_path: Path) -> None:
    record = PolicyRecord(tmp_path)
    record.point("L1", "a" * 64, "pair one")
    assert not record.point("L1", "a" * 64, "again")
    assert len(record.history()) == 1


def test_a_rollback_is_a_move_like_any_other(tmp_path: Path) -> None:
    record = PolicyRecord(tmp_path)
    for revision in ("a", "b", "a"):
        record.point("L1", revision, "")
    assert [m["revision"] for m in record.history("L1")] == ["a", "b", "a"]


def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DigestError, match="no policy 'L9'"):
        PolicyRecord(tmp_path).get("L9")


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    names = [f"L{i}" for i in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: PolicyRecord(tmp_path).point(name, name, ""), names))
    assert PolicyRecord(tmp_path).all() == {name: name for name in names}
    assert len(PolicyRecord(tmp_path).history()) == 20
