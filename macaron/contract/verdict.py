"""The verdict: what the contract's gates say of one champion and one challenger.

A pure function of the contract and the outcomes. A challenger is promoted if and only if some
improve suite gains, significantly and by enough, and no suite at all may have got worse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from macaron.contract.document import Contract, Gates
from macaron.contract.gate import Outcome, Row, SuiteOutcomes, gate, measure
from macaron.contract.statistics import PairedCounts, holm, mcnemar_exact
from macaron.errors import ConfigError, DigestError
from macaron.files import digest_value

__all__ = ["Decision", "Outcome", "Row", "SuiteOutcomes", "Verdict", "judge"]

Decision = Literal["promoted", "rejected"]


@dataclass(frozen=True)
class Verdict:
    """What was decided, under which contract, from which items, and why."""

    contract: str
    """The contract's name."""
    contract_digest: str
    items_digest: str
    """Over every suite's item ids."""
    champion: str | None
    """Id of the champion's pair, where the caller gave it."""
    challenger: str | None
    alpha: float
    minimum_effect: float
    margin: float
    decision: Decision
    reasons: tuple[str, ...]
    """Of a rejection: one per failed gate. Of a promotion: the gains."""
    rows: tuple[Row, ...]
    """In the contract's order."""

    @property
    def promoted(self) -> bool:
        """Whether the challenger becomes the champion."""
        return self.decision == "promoted"

    def metrics(self) -> dict[str, dict[str, dict[str, float]]]:
        """The numbers as trackers want them: `suite`, its name, the number's name.

        The champion's and challenger's shares, their difference, its interval `low` and `high`,
        `p`, `p_holm` and `n`; what is None is left out.
        """
        names = ("champion", "challenger", "difference", "low", "high", "p", "p_holm", "n")
        values = {row.suite: {name: getattr(row, name) for name in names} for row in self.rows}
        return {
            "suite": {
                suite: {name: float(value) for name, value in numbers.items() if value is not None}
                for suite, numbers in values.items()
            }
        }

    def flat_metrics(self) -> dict[str, float]:
        """The same with names such as `suite/chat/challenger`."""
        return {
            f"suite/{suite}/{name}": value
            for suite, numbers in self.metrics()["suite"].items()
            for name, value in numbers.items()
        }

    def to_json(self) -> dict[str, Any]:
        """The value of a verdict file."""
        return {"schema": 1, **asdict(self), "reasons": list(self.reasons), "rows": self._rows()}

    def _rows(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in self.rows]

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "Verdict":
        """The verdict in a file.

        Raises:
            DigestError: keys are missing or unknown.
        """
        try:
            fields = dict(value)
            if (schema := fields.pop("schema")) != 1:
                raise TypeError(f"schema {schema}")
            rows = tuple(Row(**row) for row in fields.pop("rows"))
            return cls(**{**fields, "rows": rows, "reasons": tuple(fields["reasons"])})
        except (TypeError, KeyError) as error:
            raise DigestError(
                f"not a verdict: {error}",
                where=where,
                mend="`macaron pairs restore` puts back what MLflow has",
            ) from error


def judge(
    contract: Contract,
    outcomes: Mapping[str, SuiteOutcomes],
    *,
    champion: str | None = None,
    challenger: str | None = None,
) -> Verdict:
    """The contract's verdict on one set of outcomes.

    Args:
        contract: suites and gates.
        outcomes: suite name -> outcomes; exactly the contract's suites.
        champion: id of the champion's pair, to be named in the verdict.
        challenger: id of the challenger's pair.

    Raises:
        ConfigError: a suite is missing or unknown, or its items are not as many as the
            contract asks for, once each, and the same on both sides.
    """
    names = {suite.name for suite in contract.suites}
    if odd := sorted(names.symmetric_difference(outcomes)):
        raise ConfigError(
            f"outcomes and contract differ in suites: {odd}",
            where=f"contract {contract.name}",
            mend="measure every suite of the contract and no other",
        )
    rows = _rows(
        contract, {suite.name: measure(suite, outcomes[suite.name]) for suite in contract.suites}
    )
    rejections = _rejections(contract.gates, rows)
    gains = [row.text for row in rows if row.improved]
    items = {name: sorted(item for item, _ in outcomes[name].champion) for name in names}
    return Verdict(
        contract=contract.name,
        contract_digest=contract.digest,
        items_digest=digest_value(items),
        champion=champion,
        challenger=challenger,
        alpha=contract.gates.alpha,
        minimum_effect=contract.gates.minimum_effect,
        margin=contract.gates.margin,
        decision="rejected" if rejections else "promoted",
        reasons=tuple(rejections or gains),
        rows=rows,
    )


def _rows(contract: Contract, counts: Mapping[str, PairedCounts]) -> tuple[Row, ...]:
    """One row a suite; the improve suites are one family for Holm."""
    p = {name: mcnemar_exact(c.gains, c.losses) for name, c in counts.items()}
    improve = [suite.name for suite in contract.suites if suite.role == "improve"]
    adjusted = dict(zip(improve, holm([p[name] for name in improve]), strict=True))
    strictest = contract.gates.alpha / len(improve)
    return tuple(
        gate(
            suite,
            counts[suite.name],
            contract.gates,
            p[suite.name],
            adjusted.get(suite.name),
            strictest,
        )
        for suite in contract.suites
    )


def _rejections(gates: Gates, rows: Sequence[Row]) -> list[str]:
    """Why the challenger is rejected; empty when it is promoted."""
    reasons = [row.text for row in rows if row.gate == "fail"]
    if not any(row.improved for row in rows):
        improve = [row for row in rows if row.role == "improve" and row.difference is not None]
        best = max(improve, key=lambda row: row.difference or 0.0, default=None)
        nearest = f"; nearest was {best.text}" if best else ""
        reasons.append(
            f"no improve suite gained at least {100 * gates.minimum_effect:.1f} points "
            f"significantly{nearest}"
        )
    return reasons
