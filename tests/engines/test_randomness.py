"""Random numbers by place."""

import numpy as np

from macaron.engines.randomness import derive, uniforms


def _numbers(seed: int, prompts: list[int], samples: list[int], tokens: int) -> np.ndarray:
    return uniforms(seed, np.array(prompts), np.array(samples), tokens)


def test_a_place_has_one_number() -> None:
    whole = _numbers(7, [0, 0, 1, 1], [0, 1, 0, 1], 9)
    assert (whole[2:3, :4] == _numbers(7, [1], [0], 4)).all()


def test_places_differ() -> None:
    prompts, samples = np.repeat(np.arange(40), 8), np.tile(np.arange(8), 40)
    numbers = uniforms(7, prompts, samples, 30)
    assert len(np.unique(numbers)) == numbers.size
    assert not (numbers == uniforms(8, prompts, samples, 30)).any()


def test_numbers_are_uniform_and_independent() -> None:
    numbers = uniforms(1, np.arange(400), np.zeros(400, dtype=np.int64), 100)
    assert numbers.min() >= 0 and numbers.max() < 1
    histogram, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert abs(histogram - 2000).max() < 5 * 2000**0.5
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.02


def test_seeds_from_parts_differ_by_every_part() -> None:
    assert (
        len({derive(1, "L0", 2), derive(1, "L0", 3), derive(1, "L1", 2), derive(2, "L0", 2)}) == 4
    )
    assert derive(1, "a", 23) != derive(1, "a2", 3)
    assert 0 <= derive("x") < 2**63
