"""Training under a real `deepspeed` launch is the training that one plain process does."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macaron.learner.deepspeed import engine_config
from tests.learner.conftest import EXAMPLES, ROUTING, config, data, state

SCRIPT = Path(__file__).with_name("ranks.py")
HOUSE = Path(__file__).parents[2]


def test_zero_stage_and_clip_reach_deepspeed() -> None:
    given = engine_config(config(zero_stage=2, max_grad_norm=0.3))
    assert given["zero_optimization"]["stage"] == 2
    assert given["gradient_clipping"] == 0.3


def launch(base: Path, out: Path, stage: int, ranks: int, kill_after: int | None = None) -> int:
    out.mkdir(exist_ok=True)
    command = [
        str(Path(sys.executable).with_name("deepspeed")),
        "--num_accelerators",
        str(ranks),
        "--master_port",
        str(29600 + os.getpid() % 300),
        str(SCRIPT),
        *(str(a) for a in (base, out, stage, kill_after) if a is not None),
    ]
    environment = {**os.environ, "PYTHONPATH": str(HOUSE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    print(done.stdout[-3000:], done.stderr[-3000:])
    return done.returncode


def adapter(out: Path, name: str, rank: int = 0) -> np.ndarray[Any, Any]:
    return np.frombuffer((out / f"{name}-{rank}.bin").read_bytes(), dtype=np.float32)


@pytest.mark.full
@pytest.mark.parametrize(("stage", "ranks"), [(0, 2), (2, 2)])
def test_ranks_and_zero_change_nothing(
    train: Callable[..., Any], bases: dict[str, Path], tmp_path: Path, stage: int, ranks: int
) -> None:
    settings = config(prompts=3, routing_batch=3, experience_batch=3)
    engine, _, expected = train(
        data(examples=EXAMPLES, routing=ROUTING), settings, specialist="one"
    )
    alone = np.frombuffer(state(engine, "one"), dtype=np.float32)
    assert launch(bases["qwen3"], tmp_path, stage, ranks) == 0
    for name in ("one", "two"):
        for rank in range(1, ranks):
            assert (adapter(tmp_path, name) == adapter(tmp_path, name, rank)).all()
    steps = json.loads((tmp_path / "steps.json").read_text())
    assert len(steps) == 8
    counted = ("trained_tokens", "example_tokens", "routing_tokens", "skipped_groups")
    for name in counted:
        assert [m[name] for m in steps[:1]] == [m[name] for m in expected[:1]]
    for name in ("loss", "reward", "grad_norm"):
        assert steps[0][name] == pytest.approx(expected[0][name], rel=1e-4)
    # Rounding is all that may differ; Adam makes more of it where a gradient is almost nothing.
    found = adapter(tmp_path, "one")
    assert np.corrcoef(found, alone)[0, 1] > 0.9999
    assert np.abs(found - adapter(tmp_path, "two")).max() > 1e-3


@pytest.mark.full
def test_a_killed_launch_resumes_bit_for_bit(bases: dict[str, Path], tmp_path: Path) -> None:
    """Killed in the second specialist, between two checkpoints, each rank with its own shard."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert launch(bases["qwen3"], whole, 1, 2) == 0
    assert launch(bases["qwen3"], broken, 1, 2, kill_after=7) != 0
    kept = {p.name for p in (broken / "checkpoint" / "two").iterdir()}
    assert {"optimizer-2-0.safetensors", "optimizer-2-1.safetensors"} <= kept
    assert launch(bases["qwen3"], broken, 1, 2) == 0
    assert json.loads((broken / "steps.json").read_text())[0]["step"] == 3
    for name in ("one", "two"):
        assert (adapter(broken, name) == adapter(whole, name)).all()
