"""What must hold after a soak: of every turn that arrived, the record, the history, the adapter."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks._deployed import HOUSE, Deployed
from benchmarks.soak_clients import Got
from macaron.engines.local import load_local
from macaron.experience.log import TurnLog
from macaron.experience.schema import Trajectory
from macaron.experience.store import ExperienceStore
from macaron.experience.table import from_table
from macaron.mindforge.stores import pair_store
from macaron.pair import adapter_path

TOLERANCE = 1e-3
"""Nats a token between the server's log-probability and another engine's."""
SAMPLE = 100
"""Turns that are computed again."""


@dataclass
class Found:
    """Counts; all but the first and last two must be 0."""

    kept: int = 0
    """Rows in the experience."""
    lost: int = 0
    """Turns that arrived and are not there."""
    doubled: int = 0
    """Rows of one request, beyond the first."""
    crossed: int = 0
    """Rows whose conversation is not the client's own."""
    other_adapter: int = 0
    """Turns whose tokens are not those of the adapter that they name."""
    told_apart: int = 0
    """Of the turns computed again, those that another adapter would not have said."""
    computed: int = 0


def check(deployed: Deployed, got: Sequence[Got], seed: int) -> Found:
    """Holds the experience against what the clients were given."""
    rows = experience(deployed)
    found = Found(kept=len(rows))
    by_id = {turn.id: turn for turn in got}
    for turn in got:
        row = rows.get(turn.id)
        if row is None:
            found.lost += 1
            continue
        found.crossed += [m["content"] for m in row.messages] != conversation(turn, by_id)
        found.crossed += row.pair != turn.pair
    asked = [row.messages[-2]["content"] for row in rows.values()]
    # No two requests say the same: each has its session's name and its own number.
    found.doubled = len(asked) - len(set(asked))
    _recompute(deployed, rows, [t.id for t in got if t.id in rows], found, seed)
    return found


def experience(deployed: Deployed) -> dict[str, Trajectory]:
    """All rows, by id."""
    settings = deployed.settings
    store = ExperienceStore(settings.experience)
    TurnLog(settings.state / "turns").compact(store)
    return {row.id: row for row in from_table(store.read())}


def conversation(turn: Got, by_id: Mapping[str, Got]) -> list[str]:
    """The texts that the client has seen, up to this turn's answer."""
    before = conversation(by_id[turn.previous], by_id) if turn.previous else []
    return [*before, turn.asked, turn.answer]


def _recompute(
    deployed: Deployed, rows: Mapping[str, Trajectory], ids: Sequence[str], found: Found, seed: int
) -> None:
    chosen = random.Random(seed).sample(sorted(ids), min(SAMPLE, len(ids)))
    store = pair_store(deployed.settings)
    revisions = {
        revision: adapter_path(store.folder(pair.id), key)
        for pair in deployed.pairs
        for key, revision in pair.adapters.items()
    }
    engine = load_local(HOUSE / "models/nano", revisions)
    for id in chosen:
        row = rows[id]
        start = row.loss_mask.index(True) if True in row.loss_mask else len(row.loss_mask)
        prompt, answer = row.token_ids[:start], row.token_ids[start:]
        if not answer or row.adapter is None:
            continue
        found.computed += 1
        mine = engine.rank([prompt], [answer], row.adapter)[0][0] / len(answer)
        said = sum(row.logprobs[start:]) / len(answer)
        found.other_adapter += not abs(mine - said) <= TOLERANCE
        others = [r for r in revisions if r != row.adapter]
        nearest = min(
            abs(engine.rank([prompt], [answer], other)[0][0] / len(answer) - said)
            for other in others
        )
        found.told_apart += nearest > TOLERANCE
