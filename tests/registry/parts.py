"""Tiny real parts of pairs: adapters of a few numbers, and the shipped HCP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from macaron.contract.document import Contract
from macaron.contract.verdict import Verdict, judge
from macaron.pair import Pair
from macaron.pool.candidate import Candidate
from macaron.pool.packed import Packed, write_packed
from macaron.registry.pairs import WEIGHTS, PairStore
from tests.contract.outcomes import contract, outcomes

ROOT = Path(__file__).parents[2]
HCP = ROOT / "contracts" / "hcp" / "nano.toml"
SPECIALISTS = ("L0", "L1", "L2", "L3")


def adapter(folder: Path, value: float) -> Path:
    """A folder with PEFT's two files; the value decides the digest."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = np.full((4, 2), value, dtype=np.float32)
    save_file({"lora_A.weight": weights.T.copy(), "lora_B.weight": weights}, folder / WEIGHTS)
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2}\n')
    return folder


def adapters(folder: Path, value: float) -> dict[str, Path]:
    """One adapter per specialist."""
    return {name: adapter(folder / name, value + i) for i, name in enumerate(SPECIALISTS)}


def make_pair(
    store: PairStore,
    tmp: Path,
    value: float,
    parent: Pair | None = None,
    tools: Path | None = None,
) -> Pair:
    """A pair whose adapters are given by the value."""
    parts = adapters(tmp / f"parts-{value}", value)
    generation = parent.generation + 1 if parent else 0
    return store.create("0" * 64, parts, HCP, parent.id if parent else None, generation, tools)


def make_verdict(
    promoted: bool, challenger: str | None = None, under: Contract | None = None
) -> Verdict:
    """A verdict under the given contract over `chat` and `routing`, or the tests' own."""
    gains = 30 if promoted else 0
    measured = {
        "chat": outcomes(50, gains, 0, 50 - gains),
        "routing": outcomes(90, 1, 1, 8),
    }
    return judge(under or contract(), measured, challenger=challenger)


def tool(name: str, source: str = "") -> Candidate:
    """A tool that no sandbox runs here."""
    text = source or f"def {name}(x):\n    return x\n"
    return Candidate(name, f"Does {name}.", {"type": "object", "properties": {"x": {}}}, text)


def make_tools(folder: Path, *names: str, demoted: tuple[str, ...] = (), pair: str = "") -> Path:
    """A pool's folder whose tools passed their trials, and whose demoted ones failed since."""
    tools = {name: tool(name) for name in (*names, *demoted)}
    events = [
        event for name, made in tools.items() for event in _events(made, name in demoted, pair)
    ]
    lost = {tools[name].digest: tools[name] for name in demoted}
    packed = Packed(
        tools={name: tools[name] for name in names},
        demoted=lost,
        reasons=dict.fromkeys(lost, "it failed"),
        events=events,
    )
    return write_packed(packed, folder)


def _events(made: Candidate, demoted: bool, pair: str) -> Iterator[dict[str, Any]]:
    """What a pool's log says of a tool."""
    numbers = {"seed": 1, "trials": 5, "needed": 5, "passed": 5, "faults": {}}
    kinds: dict[str, dict[str, Any]] = {
        "saved": {"task": "t", "shape": made.digest},
        "tried": {**numbers, "promoted": True, "reason": ""},
    }
    if demoted:
        kinds["demoted"] = {"reason": "it failed"}
    named = {"digest": made.digest, "name": made.name, "session": "s", "pair": pair}
    for kind, facts in kinds.items():
        event_id = f"{made.name} {kind}"
        yield {"id": event_id, "event": kind, "at": "2026-01-01T00:00:00+00:00", **named, **facts}
