"""Small contracts and outcomes for tests."""

from collections.abc import Mapping
from typing import Literal

from macaron.contract.document import Contract, ExperienceGate, Gates, Suite
from macaron.contract.verdict import SuiteOutcomes


def contract(items: int = 100, **roles: Literal["improve", "guard"]) -> Contract:
    """A contract with the given suites; chat improves and routing guards by default."""
    suites = tuple(
        Suite(name=name, environment=name, specialist="L0", items=items, role=role)
        for name, role in (roles or {"chat": "improve", "routing": "guard"}).items()
    )
    return Contract(
        version="1.0",
        name="test",
        seed=1,
        suites=suites,
        gates=Gates(alpha=0.05, minimum_effect=0.03, margin=0.05),
        experience=ExperienceGate(max_quarantined=0.2),
        rewritable=(),
    )


def outcomes(both: int, gains: int, losses: int, neither: int, invalid: int = 0) -> SuiteOutcomes:
    """Outcomes with these counts; invalid items failed to verify on the challenger's side."""
    pairs: list[tuple[bool | None, bool | None]] = [
        *[(True, True)] * both,
        *[(False, True)] * gains,
        *[(True, False)] * losses,
        *[(False, False)] * neither,
        *[(True, None)] * invalid,
    ]
    return SuiteOutcomes(
        champion=[(f"item-{i}", left) for i, (left, _) in enumerate(pairs)],
        challenger=[(f"item-{i}", right) for i, (_, right) in enumerate(pairs)],
    )


def swapped(all_outcomes: Mapping[str, SuiteOutcomes]) -> dict[str, SuiteOutcomes]:
    """The same outcomes with the sides exchanged."""
    return {k: SuiteOutcomes(o.challenger, o.champion) for k, o in all_outcomes.items()}
