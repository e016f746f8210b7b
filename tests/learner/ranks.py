"""What each rank of a `deepspeed` launch runs: two specialists in turn on one resident base.

ranks.py BASE OUT ZERO_STAGE [KILL_AFTER]
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from macaron.engines.local import load_local
from macaron.learner.deepspeed import DeepSpeedBackend
from macaron.learner.trainer import train_specialist
from tests.engines.conftest import stir
from tests.learner.conftest import EXAMPLES, ROUTING, config, data, state


def main() -> None:
    """Trains, and writes each rank's adapters and metrics."""
    arguments = [a for a in sys.argv[1:] if not a.startswith("--local_rank")]
    base, out, stage = Path(arguments[0]), Path(arguments[1]), int(arguments[2])
    kill_after = int(arguments[3]) if len(arguments) > 3 else None
    backend = DeepSpeedBackend()
    engine = load_local(base, {}, batch=64)
    engine.causal.get_input_embeddings().weight.mul_(10)
    steps: list[dict[str, Any]] = []

    def hook(metrics: dict[str, Any]) -> None:
        steps.append(metrics)
        if kill_after is not None and len(steps) == kill_after:
            os._exit(9)

    # Three prompts over two ranks: one and two.
    settings = config(
        prompts=3, routing_batch=3, experience_batch=3, zero_stage=stage, checkpoint_every=2
    )
    for seed, name in enumerate(("one", "two")):
        engine.create(name, rank=4, alpha=8, seed=seed)
        stir(engine, name)
    for name in ("one", "two"):
        train_specialist(
            engine,
            name,
            data(examples=EXAMPLES, routing=ROUTING),
            settings,
            specialist=name,
            seed=1,
            backend=backend,
            checkpoint=out / "checkpoint" / name,
            on_step=hook,
        )
    for name in ("one", "two"):
        (out / f"{name}-{backend.rank}.bin").write_bytes(state(engine, name))
    if backend.rank == 0:
        (out / "steps.json").write_text(json.dumps(steps))


main()
