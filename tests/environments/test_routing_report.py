"""The report's numbers, by hand."""

import math

import pytest

from macaron.environments.base import Task
from macaron.environments.routing_report import (
    Routed,
    Share,
    accuracy,
    calibration_error,
    compliance,
    confusion,
    reliability,
    routed,
    softmax,
)

LABELS = ("chat", "agent", "coding")


def turn(label: str, kind: str = "plain") -> Task:
    message = {"role": "user", "content": label}
    return Task("routing", "L0", kind, "sealed", (message,), label, {})  # type: ignore[arg-type]


def row(label: str, *probabilities: float, kind: str = "plain") -> Routed:
    return Routed(turn(label, kind), dict(zip(LABELS, probabilities, strict=True)))


ROWS = [
    row("chat", 0.9, 0.05, 0.05),
    row("chat", 0.3, 0.5, 0.2, kind="about"),
    row("agent", 0.05, 0.9, 0.05),
    row("coding", 0.86, 0.07, 0.07),
]


def test_probabilities_are_of_the_labels_alone() -> None:
    assert softmax([-1000.0, -1000.0 + math.log(3)]) == pytest.approx([0.25, 0.75])
    assert softmax([math.nan, -2.0]) == [0.0, 1.0]
    assert softmax([-math.inf, -math.inf]) == [0.5, 0.5]


def test_scores_become_rows() -> None:
    [one] = routed([turn("agent")], [[-3.0, -1.0, -9.0]], LABELS)
    assert (one.chosen, one.right) == ("agent", True)
    assert sum(one.probabilities.values()) == pytest.approx(1)


def test_accuracy_by_kind() -> None:
    assert accuracy(ROWS) == {"all": Share(2, 4)}
    assert accuracy(ROWS, lambda t: t.kind) == {"about": Share(0, 1), "plain": Share(2, 3)}
    assert math.isnan(Share(0, 0).value)
    low, high = Share(99, 100).interval()
    assert low < 0.99 < high


def test_confusion_is_right_label_by_choice() -> None:
    assert confusion(ROWS, LABELS) == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]


def test_calibration_is_the_mean_gap_of_the_bins() -> None:
    found = {(b.low, b.n): (b.confidence, b.accuracy) for b in reliability(ROWS)}
    assert found[0.4, 1] == (0.5, 0.0)
    assert found[0.8, 3] == pytest.approx(((0.9 + 0.9 + 0.86) / 3, 2 / 3))
    gap = (1 * 0.5 + 3 * abs(2.66 / 3 - 2 / 3)) / 4
    assert calibration_error(ROWS) == pytest.approx(gap)


def test_a_choice_that_is_no_label_is_not_compliant() -> None:
    odd = Routed(turn("chat"), {"chatter": 1.0})
    assert compliance([*ROWS, odd], LABELS) == Share(4, 5)
