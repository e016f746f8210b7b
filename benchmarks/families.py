"""What the shipped nano base can do in the further families, which it was never trained for.

    python -m benchmarks.families [--quick] [--tasks 40] [--samples 4] [--seed 0]

Sealed tasks, under each family's own harness document: greedy success, and over `samples` tries a
task at temperature 1 the share of right ones and of tasks with at least one. Success is a reward of
1. It says what a family is worth to a night: where no try is right there is nothing to learn from,
and the family can only guard.
"""

import argparse
import os
from pathlib import Path

# Before torch starts its threads.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PYTHONWARNINGS"] = "ignore"

from benchmarks._report import metric
from macaron.contract.statistics import wilson_interval
from macaron.engines.base import Engine
from macaron.environments import families
from macaron.environments.bank import sealed
from macaron.environments.base import Environment
from macaron.hcp.document import load_hcp
from macaron.mint.episodes import play
from macaron.mol.runtime import Runtime

ROOT = Path(__file__).parents[1]
NANO = ROOT / "models/nano"


def harness(made: Environment) -> Path:
    """The family's own document where its tools need one, else nano's."""
    own = ROOT / f"contracts/hcp/{made.name}.toml"
    return own if own.exists() else ROOT / "contracts/hcp/nano.toml"


def measure(engine: Engine, made: Environment, n: int, samples: int, seed: int) -> None:
    """Prints one family's rows."""
    from transformers import AutoTokenizer

    hcp = load_hcp(harness(made))
    runtime = Runtime(hcp, AutoTokenizer.from_pretrained(NANO), {}, engine=engine)
    tasks = sealed(made.name, n, seed)
    greedy = [e.score.reward == 1.0 for e in play(runtime, tasks, range(n), 0.0)]
    low, high = wilson_interval(sum(greedy), n, 0.95)
    metric(f"{made.name}_greedy", sum(greedy) / n, f"of {n} [{low:.2f}-{high:.2f}]")
    many = [task for task in tasks for _ in range(samples)]
    found = [e.score.reward == 1.0 for e in play(runtime, many, range(len(many)), 1.0)]
    solved = [any(found[i : i + samples]) for i in range(0, len(found), samples)]
    metric(f"{made.name}_sampled", sum(found) / len(found), f"of {len(found)}")
    metric(f"{made.name}_solved_once", sum(solved) / n, f"of {n} in {samples} tries")


def main() -> None:
    """Every family."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few tasks and tries")
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    from macaron.engines.local import load_local

    tasks, samples = (12, 2) if options.quick else (options.tasks, options.samples)
    engine = load_local(NANO, {})
    for made in families().values():
        measure(engine, made, tasks, samples, options.seed)


if __name__ == "__main__":
    main()
