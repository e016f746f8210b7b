"""The router: a label of the HCP whatever is said, by as few tokens as tell the labels apart."""

import math

import pytest

from macaron.mol.router import choose, distinct


def test_labels_are_read_as_far_as_they_differ() -> None:
    labels = {"a": [5, 1], "b": [6, 1], "c": [6, 7, 1], "d": [6, 7, 8, 9, 1]}
    assert distinct(labels) == {"a": [5], "b": [6, 1], "c": [6, 7, 1], "d": [6, 7, 8]}
    assert distinct({"only": [3, 1]}) == {"only": [3]}


def test_the_likeliest_label_is_chosen_with_its_probability() -> None:
    choice = choose({"a": [1], "b": [2]}, [math.log(0.2), math.log(0.6)], 7, 1.5)
    assert choice.specialist == "b" and choice.confidence == pytest.approx(0.75)
    assert sum(choice.probabilities.values()) == pytest.approx(1)
    assert choose({"a": [1], "b": [2]}, [-3.0, -3.0]).specialist == "a"
    for broken in ([math.nan, -1.0], []):
        with pytest.raises(ValueError, match="no numbers"):
            choose({"a": [1], "b": [2]}, broken)
