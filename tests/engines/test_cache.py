"""Rows of a cache branch and end; each keeps its own history."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DynamicCache

from macaron.engines.base import SampleParams
from macaron.engines.cache import RowCache, branch_rows
from macaron.engines.decode import Decode

PLANS = st.integers(1, 5).flatmap(
    lambda rows: st.tuples(
        st.just(rows), st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=7), max_size=4)
    )
)


def column(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).view(-1, 1, 1, 1).expand(-1, 2, 1, 3)


@pytest.mark.parametrize("kind", ["rows", "dynamic"])
@given(plan=PLANS)
def test_each_row_keeps_its_history(kind: str, plan: tuple[int, list[list[int]]]) -> None:
    rows, steps = plan
    cache: Any = RowCache(1, len(steps) + 1, 7) if kind == "rows" else DynamicCache()
    keys, _ = cache.update(column(list(range(rows))), column(list(range(rows))), 0)
    histories = [[row] for row in range(rows)]
    for number, picks in enumerate(steps):
        parents = [pick % len(histories) for pick in picks]
        children = branch_rows(cache, torch.tensor(parents)).tolist()
        assert sorted(children) == list(range(len(parents)))
        tokens = [100 * (number + 1) + child for child in children]
        histories = [
            [*histories[parents[child]], token]
            for child, token in zip(children, tokens, strict=True)
        ]
        keys, values = cache.update(column(tokens), column(tokens), 0)
        assert keys[:, 0, :, 0].tolist() == values[:, 1, :, 2].tolist() == histories


def test_samples_with_one_history_share_a_row(make_engine: Any, monkeypatch: Any) -> None:
    rows: list[int] = []
    forward = Decode.forward

    def counted(self: Decode, ids: torch.Tensor, keep: int) -> torch.Tensor:
        rows.append(len(ids))
        return forward(self, ids, keep)

    monkeypatch.setattr(Decode, "forward", counted)
    engine = make_engine()
    prompts = [[5, 6, 7], [8, 9]]
    # The first passes of an engine measure its lean decoder.
    engine.rank(prompts, [[1]], "one")
    rows.clear()
    [first, second] = engine.sample(prompts, "one", SampleParams(6, temperature=1e-4), n=8)
    assert len({tuple(c.token_ids) for c in (*first, *second)}) == 2
    assert rows == [2] * 6
    rows.clear()
    engine.sample(prompts, "one", SampleParams(6, temperature=1.0), n=8)
    assert rows[0] == 2
    assert max(rows) > 4
