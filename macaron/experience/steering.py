"""Steering: kinds of task at which the deployed pair fails are drawn more often."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from macaron.experience.outcome import Outcome
from macaron.experience.schema import Trajectory

FLOOR = 0.25
"""Added to every failure rate, so that a kind that is solved is still rehearsed."""


def kind_rates(rows: Sequence[Trajectory]) -> dict[str, dict[str, dict[str, Any]]]:
    """Environment -> kind -> {rows, failures, rate}, over the rows that tell.

    The rate is smoothed, (failures + 1) / (rows + 2): one failure is no certainty.
    """
    told: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for row in rows:
        outcome = Outcome.of(row)
        if row.environment and row.kind and outcome.told:
            told[row.environment, row.kind] += 1
            failed[row.environment, row.kind] += outcome.failed
    rates: dict[str, dict[str, dict[str, Any]]] = {}
    for (environment, kind), count in sorted(told.items()):
        failures = failed[environment, kind]
        rates.setdefault(environment, {})[kind] = {
            "rows": count,
            "failures": failures,
            "rate": (failures + 1) / (count + 2),
        }
    return rates


def kind_weights(
    rates: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> dict[str, dict[str, float]]:
    """Environment -> kind -> weight: floor plus failure rate, scaled to a mean of 1."""
    weights = {}
    for environment, kinds in rates.items():
        raw = {kind: FLOOR + value["rate"] for kind, value in kinds.items()}
        mean = sum(raw.values()) / len(raw)
        weights[environment] = {kind: value / mean for kind, value in raw.items()}
    return weights
