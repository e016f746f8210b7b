"""One line a measurement, the same form in every benchmark, so that it can be read by machines.

METRIC name=value unit [target=OPvalue met|short]
"""

import operator
from collections.abc import Callable
from typing import Literal

Operator = Literal["<=", ">="]

_HOLDS: dict[Operator, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


def metric(
    name: str, value: float, unit: str, compare: Operator | None = None, target: float | None = None
) -> bool:
    """Prints the measurement; whether it meets its target (True where it has none)."""
    line = f"METRIC {name}={value:.4g} {unit}"
    if compare is None or target is None:
        print(line, flush=True)
        return True
    met = _HOLDS[compare](value, target)
    print(f"{line} target={compare}{target:g} {'met' if met else 'short'}", flush=True)
    return met
