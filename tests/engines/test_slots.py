"""Rows keep their states while others come, go and move; the prefix cache gives what it got."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from macaron.engines.base import SampleParams
from macaron.engines.continuous.places import Places
from macaron.engines.continuous.prefix import BLOCK, PrefixCache, names
from macaron.engines.continuous.row import Sampling, sampling
from macaron.engines.continuous.slots import CacheShape, Slots, SlotView

SHAPE = CacheShape(layers=2, heads=2, key_width=3, value_width=4, dtype=torch.float32)


def row(number: int, length: int) -> Sampling:
    found: Any = sampling([number] * length, None, SampleParams(1), sink=None)  # type: ignore[arg-type]
    return found


def fill(slots: Slots, one: Sampling, value: float) -> None:
    slots.write(
        one.slot,
        torch.full((2, 2, len(one.ids), 3), value),
        torch.full((2, 2, len(one.ids), 4), value),
    )
    one.filled = len(one.ids)


@given(st.lists(st.tuples(st.sampled_from(["add", "start", "remove"]), st.integers(0, 9))))
def test_rows_keep_their_states(plan: list[tuple[str, int]]) -> None:
    slots = Slots(SHAPE)
    places, reading, running = Places(slots), [], []
    for number, (what, pick) in enumerate(plan, 1):
        if what == "add":
            reading.append(row(number, 1 + pick * 20))
            places.add(reading[-1])
            fill(slots, reading[-1], number)
        elif what == "start" and reading:
            running.append(reading.pop(pick % len(reading)))
            places.start(running[-1])
        elif what == "remove" and reading + running:
            gone = (reading + running)[pick % len(reading + running)]
            places.remove(gone)
            (reading if gone in reading else running).remove(gone)
        assert set(places.running) == set(running)
        assert [r.slot for r in places.rows] == list(range(len(reading + running)))
        for one in reading + running:
            keys, values = slots.read(one.slot, 0, one.filled)
            assert keys.unique().tolist() == values.unique().tolist() == [one.ids[0]]


def test_a_pass_writes_each_row_where_it_ends() -> None:
    slots = Slots(SHAPE)
    slots.reserve(3, 10)
    for rows in (torch.tensor([2, 0]), slice(0, 2)):
        view = SlotView(slots, rows, torch.tensor([[1, 2], [5, 6]]))
        new = torch.arange(2 * 2 * 2 * 3.0).view(4, 2, 3)
        keys, values = view.put(1, new, torch.zeros(4, 2, 4))
        assert keys.shape == (2, 2, 7, 3) and values.shape == (2, 2, 7, 4)
        assert torch.equal(keys[0, :, 1:3].transpose(0, 1), new[:2])
        assert torch.equal(keys[1, :, 5:7].transpose(0, 1), new[2:])


def test_blocks_come_back_for_the_same_beginning_alone() -> None:
    slots, cache = Slots(SHAPE), PrefixCache(10**6)
    slots.reserve(2, 100)
    tokens = list(range(70))
    slots.write(0, torch.randn(2, 2, 70, 3), torch.randn(2, 2, 70, 4))
    cache.store(slots, 0, tokens, "r1")
    assert cache.bytes == 4 * BLOCK * SHAPE.bytes_per_token
    asked = {
        64: (tokens, "r1"),
        48: ([*tokens[:60], 0, *tokens[61:]], "r1"),
        16: (tokens[:31], "r1"),
        0: (tokens, "r2"),
    }
    for count, (text, adapter) in asked.items():
        assert cache.fill(slots, 1, [*names(text, adapter)]) == count
    assert cache.fill(slots, 1, [*names(tokens, "r1")]) == 64
    for one, other in zip(slots.read(0, 0, 64), slots.read(1, 0, 64), strict=True):
        assert torch.equal(one, other)
    assert cache.fill(slots, 1, [*names(tokens[1:], "r1")]) == 0
    cache.drop("r1")
    assert cache.bytes == 0 and cache.fill(slots, 1, [*names(tokens, "r1")]) == 0


def test_a_revision_is_no_token() -> None:
    assert not {*names(range(64), None)} & {*names(range(64), "base")}


@pytest.mark.parametrize("blocks", [0, 1, 3, 5])
def test_the_least_recently_used_blocks_go(blocks: int) -> None:
    slots = Slots(SHAPE)
    slots.reserve(1, 100)
    cache = PrefixCache(blocks * BLOCK * SHAPE.bytes_per_token)
    texts = [[n] * 2 * BLOCK for n in range(3)]
    for text in texts:
        cache.store(slots, 0, text, None)
        cache.fill(slots, 0, [*names(texts[0], None)])
        assert cache.bytes <= cache.limit
    kept = [cache.fill(slots, 0, [*names(text, None)]) // BLOCK for text in texts]
    assert kept == {0: [0, 0, 0], 1: [0, 0, 1], 3: [1, 0, 2], 5: [2, 1, 2]}[blocks]
