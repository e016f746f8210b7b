"""Real training jobs on a tiny random base: real tasks, real identity adapters, few steps."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from macaron.environments import environment
from macaron.environments.base import Task
from macaron.hcp.document import load_hcp
from macaron.messages import SPECIALIST_NAMES
from macaron.mint.job import SpecialistJob, TrainingJob, write_job
from macaron.mint.revision import identity_adapters
from macaron.pair import base_digest
from macaron.profile import GrpoConfig, LoraConfig
from tests.tiny import Architecture, tiny_base

LORA = LoraConfig(rank=2, alpha=4)
HCP = """\
version = "1.0"
[router]
system = "route"
default = "L2"
"""


def make_job(
    folder: Path,
    specialists: Sequence[str] = ("L1", "L2"),
    *,
    processes: int = 2,
    examples: int = 6,
    architecture: Architecture = "qwen3",
    timeout: int = 900,
    **grpo: Any,
) -> Path:
    """The file of a job whose examples teach something, since a random base earns no reward."""
    base = tiny_base(folder / "base", architecture)
    adapters = folder / "parents"
    identity_adapters(base, LORA, adapters, specialists, seed=0)
    hcp = folder / "hcp.toml"
    hcp.write_text(HCP + "".join(map(_specialist, SPECIALIST_NAMES)))
    config: dict[str, Any] = {
        "steps": 4, "prompts": 2, "group": 2, "lr": 1e-2, "warmup": 0, "final_lr": 1.0,
        "clip": 0.2, "temperature": 1.0, "max_grad_norm": 1.0, "routing_batch": 4,
        "experience_batch": 4, "experience_weight": 1.0, "checkpoint_every": 1,
    }  # fmt: skip
    job = TrainingJob(
        base=str(base),
        base_digest=base_digest(base),
        hcp=str(hcp),
        hcp_digest=load_hcp(hcp).digest,
        out=str(folder / "out"),
        seed=7,
        lora=LORA,
        grpo=GrpoConfig(**config | grpo),
        processes=processes,
        timeout=timeout,
        specialists=tuple(_inputs(folder, key, adapters / key, examples) for key in specialists),
    )
    return write_job(job, folder / "job.json")


def _specialist(key: str) -> str:
    name = SPECIALIST_NAMES[key]
    return (
        f'[specialists.{key}]\nname = "{name}"\nsystem = "{name}"\n'
        "max_tokens = 6\ntemperature = 0.0\n"
    )


def _inputs(folder: Path, key: str, parent: Path, examples: int) -> SpecialistJob:
    tasks = _tasks(SPECIALIST_NAMES[key], 8)
    routing = _tasks("routing", 8) if key == "L0" else []
    given = [
        {"messages": list(t.messages), "answer": t.reference, "origin": "test"}
        for t in tasks[:examples]
    ]
    return SpecialistJob.of(
        key,
        parent=parent,
        tasks=_lines(folder / f"{key}-tasks.jsonl", [t.to_json() for t in tasks]),
        examples=_lines(folder / f"{key}-examples.jsonl", given),
        routing=_lines(folder / f"{key}-routing.jsonl", [t.to_json() for t in routing]),
    )


def _tasks(name: str, count: int) -> list[Task]:
    rng = random.Random(0)
    return [environment(name).sample(rng, "train") for _ in range(count)]


def _lines(path: Path, values: list[Any]) -> Path:
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))
    return path
