"""Expansion against sweeps of single fields, on failures whose causes are known.

    python -m benchmarks.expansion [--quick] [--tasks 40] [--each 8] [--seeds 3]

The shipped nano base, frozen, runs under a worn harness: the chat specialist decodes greedily and
a hook rewrites quotes, the agent's answers are cut, a stop text ends code early, a hook spoils the
cards, and in `orders` a tool is not exposed. The failure set is of train tasks that fail under it.
The search and every sweep get the same number of attempts, `each` a failure.

Coverage: failures that were passed at least once. Unseen: fresh tasks, drawn like those of the
bank, the worn harness against the one that the search accepted, on the same seeds; success, the
exact one-sided McNemar p (Holm over specialists) and Tango's 95 % interval.
"""

import argparse
import os
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Before torch starts its threads.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PYTHONWARNINGS"] = "ignore"

from benchmarks._report import metric
from macaron.contract.document import load_contract
from macaron.contract.statistics import mcnemar_exact
from macaron.environments import environment
from macaron.environments.base import Task
from macaron.hcp.document import HCP, load_hcp
from macaron.mindforge.expand.attempts import Batches, player_of
from macaron.mindforge.expand.candidate import Edit, edited
from macaron.mindforge.expand.expansion import expand, unseen_tasks
from macaron.mindforge.expand.result import Expansion, write
from macaron.mindforge.expand.search import Search, Setting, survey
from macaron.mindforge.expand.sweeps import everything, single_fields, sweep
from macaron.mol.runtime import Runtime
from macaron.profile import ExpandConfig

HOUSE = Path(__file__).parents[1]
NANO = HOUSE / "models/nano"
ENVIRONMENTS = {"L0": "chat", "L1": "agent", "L2": "coding", "L3": "genui"}
WORN = (
    Edit("specialists.L1.max_tokens", 20),
    Edit("specialists.L2.stop", [" if"]),
    Edit(
        "hooks",
        [
            {
                "name": "quotes",
                "when": "after_turn",
                "specialists": ["L0"],
                "pattern": '"',
                "action": "replace",
                "text": "'",
            },
            {
                "name": "tags",
                "when": "after_turn",
                "specialists": ["L3"],
                "pattern": "/>",
                "action": "replace",
                "text": ">",
            },
        ],
    ),
)


def worn() -> HCP:
    """The shipped harness with a fault for every specialist, and `orders`' tools without `ship`."""
    hcp = edited(load_hcp(HOUSE / "contracts/hcp/nano.toml"), WORN)
    shop = load_hcp(HOUSE / "contracts/hcp/orders.toml")
    return edited(hcp, [Edit("tools", {k: v.model_dump() for k, v in shop.tools.items()})])


def practice(per: int, seed: int) -> dict[str, list[Task]]:
    """Train tasks of every family, from a seed that no bank uses."""
    found: dict[str, list[Task]] = {}
    for key, name in ENVIRONMENTS.items():
        rng = random.Random(f"expansion {name} {seed}")
        drawn = [environment(name).sample(rng, "train") for _ in range(per)]
        found[key] = list({task.id: task for task in drawn}.values())
    return found


def orders(count: int, seed: int) -> list[Task]:
    """Small orders, whose tools the worn harness does not expose."""
    rng = random.Random(f"expansion orders {seed}")
    return [environment("orders").sample(rng, "train", "late-4") for _ in range(count)]


def setting(config: ExpandConfig, seed: int, hcp: HCP) -> Setting:
    """The frozen base under the harness."""
    from transformers import AutoTokenizer

    from macaron.engines.local import load_local

    tokenizer: Any = AutoTokenizer.from_pretrained(NANO)
    runtime = Runtime(hcp, tokenizer, {}, engine=load_local(NANO, {}))
    return Setting(runtime, load_contract(HOUSE / "contracts/v1.toml"), config, seed)


def failing(made: Setting, tasks: Sequence[Task], per: int, batches: Batches) -> list[Task]:
    """At most `per` failures of each family."""
    found: Counter[str] = Counter()
    chosen = []
    for task in survey(made, tasks, batches):
        found[task.environment] += 1
        if found[task.environment] <= per:
            chosen.append(task)
    return chosen


def coverage(made: Setting, per: int, each: int, folder: Path) -> tuple[int, int, int]:
    """Failures that the search covers, the best sweep of one field, and everything widened."""
    play = player_of(made.runtime, 128)
    survey_batches = Batches(folder / "failures", play, made.seed)
    drawn = [task for own in practice(3 * per, made.seed).values() for task in own]
    failures = failing(made, [*drawn, *orders(per // 4, made.seed)], per, survey_batches)
    config = made.config.model_copy(update={"attempts": each * len(failures), "min_gain": 0.0})
    equal = Setting(made.runtime, made.contract, config, made.seed)
    batches = Batches(folder / "search", play, made.seed)
    found = Search(equal, failures, batches).run()
    spent = batches.spent("widened", "search")
    causes = Counter(f"{a.cause}/{'+'.join(a.how)}" for a in found.attributions.values())
    print(f"  {len(failures)} failures, {config.attempts} attempts, {spent} used: {found.stopped}")
    print(f"  causes: {dict(sorted(causes.items()))}")
    print(f"  proposals: {dict(sorted(found.proposals.items()))}", flush=True)
    best = 0
    for number, one in enumerate([*single_fields(made.base), everything(made.base)]):
        own = Batches(folder / f"sweep-{number}", play, made.seed)
        count = len(sweep(one, failures, config.attempts, own))
        print(f"  sweep {one.name}: {count} covered", flush=True)
        wide = count
        best = max(best, count) if one.name != "all fields widened" else best
    print(f"  search: {len(found.covered)} covered", flush=True)
    return len(found.covered), best, wide


def generalisation(made: Setting, per: int, count: int, folder: Path) -> Expansion:
    """A whole expansion, judged on unseen tasks."""
    tasks = practice(per, made.seed + 1000)
    known = [task for own in tasks.values() for task in own]
    environments = {key: [name] for key, name in ENVIRONMENTS.items()}
    unseen = unseen_tasks(environments, known, count, made.seed)
    batches = Batches(folder / "whole", player_of(made.runtime, 128), made.seed)
    expansion = expand(made, tasks, unseen, batches)
    write(expansion, folder)
    return expansion


def report(name: str, expansion: Expansion) -> None:
    """The METRIC lines of unseen tasks."""
    print(f"  {name}: {expansion.summary()['causes']}, spent {expansion.spent}")
    for row in expansion.rows:
        edits = next((c for c in expansion.accepted if c.id == row.candidate), None)
        what = {e.path: e.value for e in edits.edits} if edits else "not accepted"
        print(
            f"  {row.specialist} {100 * row.old:.1f} -> {100 * row.new:.1f} % of {row.n}, "
            f"{100 * row.difference:+.1f} [{100 * row.low:+.1f}, {100 * row.high:+.1f}], "
            f"p {row.p:.2g}: {what}",
            flush=True,
        )
    # Of all winners, accepted or not: who is accepted was seen on the same tasks.
    gains, losses, n = (
        sum(getattr(r, f) for r in expansion.rows) for f in ("gains", "losses", "n")
    )
    metric(f"{name}_unseen_gain", 100 * (gains - losses) / max(1, n), "points", ">=", 0.1)
    metric(f"{name}_unseen_p", mcnemar_exact(gains, losses), "", "<=", 0.05)


def measure_coverage(options: argparse.Namespace, config: ExpandConfig, folder: Path) -> None:
    """Search against sweeps, a failure set a seed."""
    ratios = []
    for seed in range(options.seed, options.seed + options.seeds):
        made = setting(config, seed, worn())
        at = folder / f"coverage-{seed}"
        covered, best, wide = coverage(made, options.tasks, options.each, at)
        ratios.append(covered / max(1, best))
        metric(f"coverage_seed{seed}_search", covered, "tasks")
        metric(f"coverage_seed{seed}_best_single_field", best, "tasks")
        metric(f"coverage_seed{seed}_all_fields_widened", wide, "tasks")
    metric("coverage_ratio_least", min(ratios), "x", ">=", 3)


def measure_unseen(options: argparse.Namespace, config: ExpandConfig, folder: Path) -> None:
    """Whole expansions of the worn and of the shipped harness."""
    shipped = load_hcp(HOUSE / "contracts/hcp/nano.toml")
    for name, hcp in (("worn", worn()), ("shipped", shipped)):
        made = setting(config, options.seed, hcp)
        report(name, generalisation(made, config.practice, config.unseen, folder / name))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small: a minute of processor time")
    parser.add_argument("--part", choices=("all", "coverage", "unseen"), default="all")
    parser.add_argument("--tasks", type=int, default=40, help="failures a family")
    parser.add_argument("--each", type=int, default=8, help="attempts a failure")
    parser.add_argument("--practice", type=int, default=64, help="tasks a family")
    parser.add_argument("--unseen", type=int, default=200, help="tasks a family")
    parser.add_argument("--seeds", type=int, default=3, help="repetitions of the coverage")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    options = parser.parse_args()
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if options.quick:
        small = {"tasks": 12, "each": 6, "seeds": 1, "practice": 24, "unseen": 60}
        vars(options).update(small)
    attempts = options.each * 4 * options.tasks
    config = ExpandConfig(attempts=attempts, practice=options.practice, unseen=options.unseen)
    with tempfile.TemporaryDirectory() as name:
        if options.part != "unseen":
            measure_coverage(options, config, Path(name))
        if options.part != "coverage":
            measure_unseen(options, config, Path(name))


if __name__ == "__main__":
    main()
