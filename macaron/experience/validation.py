"""Validation: what may be learned from, and the rest in quarantine with the reason.

Every row ends in exactly one of the two tables, and too large a share of bad ones stops the cycle
after all has been written.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from macaron.contract.document import ExperienceGate
from macaron.errors import ExperienceError
from macaron.experience.expectations import SUITE, failures
from macaron.experience.flat import flat_columns
from macaron.experience.table import check_schema
from macaron.files import atomic_path, digest_file
from macaron.settings import find_root

GOOD = "good.parquet"
QUARANTINE = "quarantine.parquet"
DOCS = "data-docs"
BEFORE = "quarantined on import"
"""Reason of the rows that never got into the table."""
OTHER_HCP = "made under another HCP"
"""Reason of served and imported rows that nothing else is wrong with; they stop no cycle."""
REASON = pa.field("reason", pa.string(), nullable=False)
"""Last column of the quarantine: the reasons, joined by "; "."""


@dataclass(frozen=True)
class Validation:
    """The outcome for one table."""

    good: pa.Table
    """In `SCHEMA`."""
    quarantined: pa.Table
    """In `SCHEMA`, and `reason`."""
    share: float
    """Bad rows over all rows, those quarantined before included; 0 where there is none."""
    other_hcp: int
    """Served and imported rows made under another HCP, with nothing else wrong with them."""
    refused: int
    """Those of them that the contract refuses: they are in quarantine, and no bad rows."""
    reasons: Mapping[str, int]
    """Reason -> rows, the commonest first; a row may have several."""
    good_path: Path
    quarantine_path: Path
    docs: Path
    """Data Docs, the HTML page to open."""
    digests: Mapping[str, str]
    """SHA-256 of the files `good` and `quarantine`, and of the `suite`."""


def validate(
    table: pa.Table,
    gate: ExperienceGate,
    hcp: str,
    pair: str,
    out: Path,
    already_quarantined: int = 0,
    suite: Path | None = None,
) -> Validation:
    """Parts the rows into good and bad; both are written under `out` as Parquet.

    Args:
        table: in `SCHEMA`.
        gate: the contract's limits.
        hcp: digest of the harness that rollouts must have been made under, and other rows as
            well, unless the gate accepts those of another one. Rows of no harness are accepted.
        pair: id of the pair that rollouts must have been made by.
        out: folder of the two tables and the Data Docs.
        already_quarantined: bad rows that never got into the table, such as the importer's.
        suite: the expectations; None: those of the project.

    Raises:
        ExperienceError: the table has another schema, or the bad share is above the gate.
        ConfigError: the suite cannot be run.
        StorageError: the disk is full or read-only.
    """
    check_schema(table.schema, "experience")
    suite = suite or find_root() / SUITE
    failed = failures(flat_columns(table, hcp, pair), suite, out / DOCS)
    others = _of_another_hcp(table, hcp) - failed.keys()
    refused = len(others) if gate.other_hcp == "refuse" else 0
    if refused:
        failed = {**failed, **{row: [OTHER_HCP] for row in others}}
    good, bad = _part(table, failed)
    good_path, quarantine_path = _write(good, out / GOOD), _write(bad, out / QUARANTINE)
    rows = table.num_rows + already_quarantined
    quarantined = bad.num_rows - refused + already_quarantined
    result = Validation(
        good=good,
        quarantined=bad,
        share=quarantined / rows if rows else 0.0,
        other_hcp=len(others),
        refused=refused,
        reasons=_reasons(failed, already_quarantined),
        good_path=good_path,
        quarantine_path=quarantine_path,
        docs=out / DOCS / "index.html",
        digests={
            "good": digest_file(good_path),
            "quarantine": digest_file(quarantine_path),
            "suite": digest_file(suite),
        },
    )
    if result.share > gate.max_quarantined:
        raise _too_many(result, gate, quarantined, rows)
    return result


def _of_another_hcp(table: pa.Table, hcp: str) -> set[int]:
    """Rows that some other harness made; rollouts have an expectation of their own."""
    other = pc.and_(
        pc.not_equal(table["source"], "rollout"),
        pc.fill_null(pc.not_equal(table["hcp"], hcp), False),
    )
    # Not indices_nonzero, which crashes on a table without rows.
    return {row for row, is_other in enumerate(other.to_pylist()) if is_other}


def _part(table: pa.Table, failed: Mapping[int, list[str]]) -> tuple[pa.Table, pa.Table]:
    bad_rows = sorted(failed)
    bad = table.take(pa.array(bad_rows, pa.int64()))
    reasons = pa.array(["; ".join(failed[row]) for row in bad_rows], pa.string())
    keep = pa.array([row not in failed for row in range(table.num_rows)], pa.bool_())
    return table.filter(keep), bad.append_column(REASON, reasons)


def _write(table: pa.Table, path: Path) -> Path:
    with atomic_path(path) as temporary:
        pq.write_table(table.combine_chunks(), temporary, compression="zstd")
    return path


def _reasons(failed: Mapping[int, list[str]], before: int) -> dict[str, int]:
    counts = Counter(reason for reasons in failed.values() for reason in reasons)
    if before:
        counts[BEFORE] = before
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _too_many(
    result: Validation, gate: ExperienceGate, quarantined: int, rows: int
) -> ExperienceError:
    reason, count = next(entry for entry in result.reasons.items() if entry[0] != OTHER_HCP)
    return ExperienceError(
        f"{quarantined} of {rows} rows are quarantined ({result.share:.0%}; the contract allows "
        f"{gate.max_quarantined:.0%}), most often: {reason} ({count})",
        where=str(result.quarantine_path),
        mend="mend or remove the source of the bad rows",
    )
