"""Functions against the REPL: rounds, tokens and success in `orders` and `offers`.

    python -m benchmarks.surfaces [--quick] [--tasks 30] [--steps 250] [--adapters FOLDER]

Each case is an environment, a surface and a way to act through it. A scripted policy acts it on
tasks of full size (24 orders, 8 offers); the shipped nano base, which never saw such formats, and
adapters trained on the policy's demonstrations act on tasks of 4, greedily, and of the offers on
those with one of the three wishes. All tasks are sealed.
Success is a reward of 1. Tokens: `written` by the policy, `context` at the turn's end, `read` over
all rounds where no prefix is cached.

`--quick` takes few tasks and trains nothing, within 50 s; `--adapters` keeps the adapters there,
and takes those that are there already.
"""

import argparse
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

# Before torch starts its threads.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PYTHONWARNINGS"] = "ignore"

from benchmarks import surface_policies as policies
from benchmarks._report import metric
from benchmarks.surface_training import Recipe, distinct, train
from macaron.environments import worlds
from macaron.environments.base import Score, Split, Task
from macaron.harness.driver import run_turns
from macaron.harness.namespace import Namespace
from macaron.harness.session import Session
from macaron.harness.turn import Turn
from macaron.hcp.document import HCP, load_hcp

HOUSE = Path(__file__).parents[1]
NANO = HOUSE / "models/nano"
FULL = {
    "orders": ("late-24", "over-24"),
    "offers": ("back-8", "soon-8", "new-8"),
}
SMALL = {"orders": ("late-4", "over-4"), "offers": ("back-4",)}
"""Kinds of task for the scripted policies, and for the nano base with its context of 1,024."""
LONG = 8192
"""Context of the scripted policy, tokens: it is no model, and has no limit of its own."""


@dataclass(frozen=True)
class Case:
    """One way to act in one environment."""

    environment: str
    surface: str
    way: str
    policy: policies.Policy
    trained: bool = True
    """Whether an adapter is trained for it."""

    @property
    def name(self) -> str:
        """For its figures."""
        return f"{self.environment}_{self.surface}_{self.way}"


CASES = (
    Case("orders", "functions", "single", policies.orders_functions),
    Case("orders", "functions", "parallel", policies.orders_parallel, trained=False),
    Case("orders", "repl", "loop", policies.orders_repl),
    Case("offers", "functions", "read", policies.offers_functions),
    Case("offers", "repl", "loop", policies.offers_repl),
    Case("offers", "repl", "careful", policies.offers_careful),
)


@dataclass(frozen=True)
class Setting:
    """What all cases share."""

    tokenizer: Any
    tasks: int
    seed: int

    def sample(
        self, case: Case, split: Split, n: int, sizes: Mapping[str, Sequence[str]]
    ) -> list[Task]:
        """Tasks of the environment's kinds in turn."""
        made, kinds = worlds()[case.environment], sizes[case.environment]
        rng = random.Random(f"{case.environment} {split} {self.seed}")
        return [made.sample(rng, split, kinds[i % len(kinds)]) for i in range(n)]

    def hcp(self, case: Case) -> HCP:
        """The environment's shipped harness, with the case's surface."""
        hcp = load_hcp(HOUSE / f"contracts/hcp/{case.environment}.toml")
        changed = hcp.specialists["L1"].model_copy(update={"surface": case.surface})
        return hcp.model_copy(update={"specialists": {"L1": changed}})


Act = Callable[[list[tuple[Session, Task]]], list[Turn]]


def attempt(
    setting: Setting, case: Case, tasks: Sequence[Task], act: Act, window: int | None = None
) -> list[tuple[Turn, Score]]:
    """The turns that come of the tasks, and what they are worth."""
    hcp = setting.hcp(case)
    made = [worlds()[case.environment].world(task) for task in tasks]
    sessions = [
        Session(
            setting.tokenizer,
            hcp,
            {"environment": world.tools()},
            namespaces=lambda seed: Namespace(hcp.workspace, seed=seed),
            window=window,
            # Sessions share this process's time: the clock says nothing of any one of them.
            clock=lambda: 0.0,
        )
        for world in made
    ]
    try:
        turns = act(list(zip(sessions, tasks, strict=True)))
        return [(t, w.score(t.answer)) for t, w in zip(turns, made, strict=True)]
    finally:
        for session in sessions:
            session.close()


def scripted(setting: Setting, case: Case) -> Act:
    """The case's policy acts."""
    return lambda starts: [
        policies.play(session, setting.tokenizer, task, case.policy) for session, task in starts
    ]


def sampled(engine: Any, adapter: str | None) -> Act:
    """A model acts, as the harness's temperature says: greedily."""
    return lambda starts: run_turns(
        engine, {"L1": adapter}, [(session, task.messages, "L1") for session, task in starts]
    )


def report(name: str, found: Sequence[tuple[Turn, Score]]) -> None:
    """The METRIC lines of one case."""
    turns = [turn for turn, _ in found]
    metric(f"{name}_rounds", fmean(turn.rounds for turn in turns), "rounds")
    metric(f"{name}_written", fmean(sum(turn.loss_mask) for turn in turns), "tokens")
    metric(f"{name}_context", fmean(len(turn.token_ids) for turn in turns), "tokens")
    metric(f"{name}_read", fmean(_read(turn) for turn in turns), "tokens")
    metric(f"{name}_success", 100 * fmean(score.reward == 1.0 for _, score in found), "%")
    stops = ", ".join(f"{n} {stop}" for stop, n in Counter(t.stop_reason for t in turns).items())
    print(f"  {len(found)} tasks; ended by: {stops}", flush=True)


def _read(turn: Turn) -> int:
    """Prompt tokens over all rounds: each response is preceded by all that stands before it."""
    mask = turn.loss_mask
    return sum(i for i, new in enumerate(mask) if new and not mask[i - 1])


def measure_scripted(setting: Setting) -> None:
    """Every case on tasks of full size."""
    for case in CASES:
        tasks = setting.sample(case, "sealed", setting.tasks, FULL)
        found = attempt(setting, case, tasks, scripted(setting, case), LONG)
        report(f"{case.name}_scripted", found)


def measure_shipped(setting: Setting) -> None:
    """The shipped base, one case a surface and environment."""
    from macaron.engines.local import load_local

    engine = load_local(NANO, {})
    seen: set[tuple[str, str]] = set()
    for case in CASES:
        if (case.environment, case.surface) in seen:
            continue
        seen.add((case.environment, case.surface))
        tasks = setting.sample(case, "sealed", setting.tasks, SMALL)
        found = attempt(setting, case, tasks, sampled(engine, None))
        report(f"{case.environment}_{case.surface}_nano_shipped", found)


def measure_trained(setting: Setting, recipe: Recipe, demonstrations: int, folder: Path) -> None:
    """An adapter a case, trained on the policy's turns on train tasks."""
    from macaron.engines.local import load_local

    base = folder / "base"
    unmet = distinct(NANO, base)
    print(f"{unmet} of the base's tokens were never met in its pretraining: given own vectors")
    for case in CASES:
        if not case.trained:
            continue
        adapter = folder / case.name
        if not (adapter / "adapter_model.safetensors").exists():
            tasks = setting.sample(case, "train", demonstrations, SMALL)
            shown = attempt(setting, case, tasks, scripted(setting, case))
            began = time.process_time()
            loss = train(base, [turn for turn, _ in shown], recipe, adapter)
            metric(f"{case.name}_nano_training_loss", loss, "nats_a_token")
            metric(f"{case.name}_nano_training_cpu", time.process_time() - began, "s")
        engine = load_local(base, {"learner": adapter})
        tasks = setting.sample(case, "sealed", setting.tasks, SMALL)
        found = attempt(setting, case, tasks, sampled(engine, "learner"))
        report(f"{case.name}_nano_trained", found)


NOT_SHOWN = """\
What this cannot show: how a large model acts. The policies stand for models that read well; which
way a model takes through a surface is its own. `offers` is made so that a loop fails: a REPL used
with care, an offer a cell, does as well as functions and writes fewer tokens. The adapters learned
from demonstrations of one way each, so they show what a small model can carry out, not what it
would choose."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few tasks, no training: within 50 s")
    parser.add_argument("--tasks", type=int, default=30, help="sealed tasks a case")
    parser.add_argument("--steps", type=int, default=Recipe.steps, help="of training, a case")
    parser.add_argument("--demonstrations", type=int, default=300, help="train tasks a case")
    parser.add_argument("--adapters", type=Path, help="keep adapters here and reuse them")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(NANO)
    setting = Setting(tokenizer, 3 if options.quick else options.tasks, options.seed)
    measure_scripted(setting)
    measure_shipped(setting)
    if not options.quick:
        recipe = Recipe(steps=options.steps, seed=options.seed)
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.adapters or Path(temporary)
            measure_trained(setting, recipe, options.demonstrations, folder)
    print(NOT_SHOWN)


if __name__ == "__main__":
    main()
