"""Promote: the champion's alias moves, if the verdict says so; nothing else changes a champion."""

from macaron.files import write_json
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from macaron.mindforge.stores import tracking


def promote(cycle: Cycle, verdict: Artifact, record: Artifact) -> Artifact:
    """Who is champion now is in the facts."""
    verdict.open()
    cycle.contract()
    registry = tracking(cycle.settings(), cycle.inputs.model_name)
    champion = cycle.inputs.champion
    if verdict.facts["decision"] == "promoted":
        champion = registry.promote(record.facts["version"]).pair_id
    return Artifact.of(
        write_json(cycle.dir / "champion.json", {"champion": champion}), champion=champion
    )
