"""Validate: the contract's gate on experience, made under the champion's own HCP."""

from typing import TYPE_CHECKING

from macaron.experience.validation import validate as check
from macaron.files import write_json
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle

EXPECTATIONS = "contracts/experience.json"

if TYPE_CHECKING:
    import pyarrow as pa


def validate(cycle: Cycle, collected: Artifact) -> Artifact:
    """The good rows as Parquet; quarantine, reasons and Data Docs are kept beside it.

    Raises:
        ExperienceError: too large a share of the rows is bad.
    """
    import pyarrow.parquet as pq

    table: pa.Table = pq.read_table(collected.open())
    result = check(
        table,
        cycle.contract().experience,
        hcp=cycle.inputs.hcp_digest,
        pair=cycle.inputs.champion,
        out=cycle.dir / "validation",
        already_quarantined=collected.facts["quarantined"],
        suite=cycle.settings().path(EXPECTATIONS),
    )
    facts = {
        "good": result.good.num_rows,
        "quarantined": result.quarantined.num_rows - result.refused,
        "other_hcp": result.other_hcp,
        "refused": result.refused,
    }
    write_json(cycle.dir / "validation" / "summary.json", facts)
    return Artifact.of(result.good_path, share=result.share, docs=str(result.docs), **facts)
