"""What serving costs: the engine beside its peers, and what of a turn goes to its hops.

    python -m benchmarks.serving [--quick] [--part engine|turns]

The engine's part runs on the shipped nano base with adapters of rank 8, where the adapters are a
large share of all weights, and on a random Qwen3-like base of 100 million weights with rank 16.
Everything runs in one process, one system after the other, with the same prompts, numbers of
tokens and threads; memory is measured in processes of its own. The turns' part plays whole turns
over the service (`benchmarks/serving_turns.py`). `--quick` leaves out the larger base's speed.
"""

import argparse
import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._report import metric
from benchmarks.serving_bases import NANO, Bundle, bundle, random_base
from benchmarks.serving_memory import measured
from benchmarks.serving_speed import (
    Speed,
    make_load,
    merged_copies,
    merged_streams,
    set_adapter,
    stream_engine,
    timed,
)
from benchmarks.serving_turns import measure_turns

SESSIONS = (1, 8, 32)
PEERS = ("set_adapter", "merged_copies", "merged_streams")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    prompt: int
    """Tokens."""
    tokens: int
    """Sampled in each session."""
    rounds: int
    """The best of them counts."""


FULL = {"nano": Size(128, 96, 3), "b100m": Size(32, 16, 2)}
QUICK = {"nano": Size(64, 24, 2)}


def measure_speed(made: Bundle, peft_model: Any, size: Size, threads: int) -> None:
    """Tokens a second and time to the first token of all systems."""
    import torch

    torch.set_num_threads(threads)
    vocabulary = peft_model.config.vocab_size
    loads = {n: make_load(n, size.prompt, size.tokens, vocabulary) for n in SESSIONS}
    systems: dict[str, Any] = {
        "engine": stream_engine(made, threads),
        "set_adapter": set_adapter(peft_model),
        "merged_copies": merged_copies(made),
        "merged_streams": merged_streams(made, threads),
    }
    found: dict[str, dict[int, list[Speed]]] = {}
    for system in systems.values():
        timed(make_load(4, 8, 2, vocabulary), system.serve)
    # In turns, so that whatever else the machine does strikes all alike.
    for n in SESSIONS * size.rounds:
        for name, system in systems.items():
            found.setdefault(name, {}).setdefault(n, []).append(timed(loads[n], system.serve))
    for system in systems.values():
        system.close()
    report_speed(made.name, {name: _best(of) for name, of in found.items()})


def _best(found: dict[int, list[Speed]]) -> dict[int, Speed]:
    return {
        n: Speed(
            max(s.tokens_per_s for s in of),
            max(s.tokens_per_cpu_s for s in of),
            min(s.first_ms for s in of),
        )
        for n, of in found.items()
    }


def report_speed(base: str, speeds: dict[str, dict[int, Speed]]) -> None:
    """One line a figure; the engine's also as a ratio to each peer's."""
    for n in SESSIONS:
        for name, found in speeds.items():
            metric(f"{base}_{name}_tokens_per_s_{n}", found[n].tokens_per_s, "1/s")
            metric(f"{base}_{name}_first_token_ms_{n}", found[n].first_ms, "ms")
        for peer in PEERS:
            _ratios(base, peer, n, speeds["engine"][n], speeds[peer][n])


def _ratios(base: str, peer: str, n: int, ours: Speed, other: Speed) -> None:
    wall = ours.tokens_per_s / other.tokens_per_s
    name = f"{base}_speedup_over_{peer}_{n}"
    if peer == "merged_streams":
        metric(name, wall, "x")
    else:
        metric(name, wall, "x", ">=", 1.0)
    cpu = ours.tokens_per_cpu_s / other.tokens_per_cpu_s
    metric(f"{base}_cpu_speedup_over_{peer}_{n}", cpu, "x (tokens per CPU second)")


def measure_memory(made: Bundle) -> None:
    """Weights and resident memory beside four merged copies in the same engine."""
    with ThreadPoolExecutor(2) as pool:
        ours, copies = pool.map(partial(measured, made), (False, True))
    for what, unit in (("weights", "distinct storages"), ("grown", "growth of RSS")):
        metric(f"{made.name}_{what}_mib", ours[what] / 2**20, f"MiB ({unit})")
        metric(f"{made.name}_{what}_merged_mib", copies[what] / 2**20, f"MiB ({unit})")
        share = 100 * ours[what] / copies[what]
        metric(f"{made.name}_{what}_share", share, "%_of_four_merged_copies", "<=", 30.0)


def measure_engine(quick: bool, threads: int) -> None:
    """The engine on both bases."""
    sizes = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as root:
        for name, rank in (("nano", 8), ("b100m", 16)):
            base = NANO if name == "nano" else random_base(Path(root) / "base")
            made, peft_model = bundle(name, base, rank, Path(root) / name)
            if name == "nano" or not quick:
                measure_speed(made, peft_model, sizes[name], threads)
            measure_memory(made)


def main() -> None:
    """Prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer tokens: under 50 s")
    parser.add_argument("--part", choices=["engine", "turns"], default="", help="one of them")
    parser.add_argument("--threads", type=int, default=1, help="of torch, for all systems")
    given = parser.parse_args()
    if given.part in ("", "turns"):
        asyncio.run(measure_turns((8,) if given.quick else (1, 8, 32), 3 if given.quick else 8))
    if given.part in ("", "engine"):
        measure_engine(given.quick, given.threads)


if __name__ == "__main__":
    main()
