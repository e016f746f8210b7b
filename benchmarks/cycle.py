"""The first cycle, from the shipped ancestor to a verdict, over several seeds.

    python -m benchmarks.cycle [--seeds 5] [--quick] [--keep FOLDER]

Each seed is a fresh clone of the committed project with stores of its own, so that nothing carries
over. Printed: sealed success before and after for each suite and seed, the wall seconds of the
whole command, of each step, and of what is no step: starting Python and Prefect's server.

`--quick` calls the steps themselves, without Prefect, on a few items: it shows that the path works
and what its parts cost when there is next to nothing to do; its verdict means nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import tomlkit

from benchmarks._report import metric
from macaron.cli.environment import cycle_environment, make_quiet

HOUSE = Path(__file__).parents[1]


def night(folder: Path, seed: int) -> dict[str, Any]:
    """One cycle in a fresh clone: {verdict, seconds, steps}."""
    subprocess.run(["git", "clone", "-q", str(HOUSE), str(folder)], check=True)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "macaron.cli.main", "improve", "--seed", str(seed)],
        cwd=folder,
        env=cycle_environment(folder / ".macaron"),
        check=False,
    )
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 3):
        raise SystemExit(f"seed {seed}: the cycle failed with exit code {done.returncode}")
    cycle = next((folder / ".macaron" / "cycles").iterdir())
    return {
        "verdict": json.loads((cycle / "verdict.json").read_text()),
        "steps": json.loads((folder / ".macaron" / "durations.json").read_text()),
        "seconds": seconds,
    }


def quick_night(folder: Path) -> dict[str, float]:
    """Wall seconds of each step of a tiny cycle in a fresh clone, called one after the other."""
    subprocess.run(["git", "clone", "-q", str(HOUSE), str(folder)], check=True)
    _shrink(folder)
    make_quiet(folder / ".macaron")
    # Next to nothing is to be done: a second process would only be started.
    os.environ["MACARON_BUDGETS__WORKERS"] = "1"
    # Imported here, once the environment is quiet.
    import pyarrow.parquet as pq

    from macaron.mindforge import begin, collect, curate, evaluate, judge, train, validate, version
    from macaron.mindforge.cycle import Options
    from macaron.settings import load_settings

    seconds: dict[str, float] = {}

    def timed(step: Callable[..., Any], *given: Any) -> Any:
        started = time.perf_counter()
        made = step(*given)
        seconds[step.__name__] = time.perf_counter() - started
        return made

    cycle = timed(begin.begin, load_settings(folder), Options(), "benchmark")
    collected = timed(collect.collect, cycle)
    good = timed(validate.validate, cycle, collected)
    job = timed(curate.curate, cycle, pq.read_table(good.open()))
    trained = timed(train.train, cycle, job, lambda *_: None)
    challenger = trained.facts["challenger"]
    probes = {key: Path(path) for key, path in trained.facts["probes"].items()}
    evaluated = timed(evaluate.evaluate, cycle, challenger, probes)
    verdict = timed(judge.judge, cycle, challenger, evaluated)
    timed(version.version, cycle, good, trained, verdict)
    return seconds


def _shrink(folder: Path) -> None:
    path = folder / "models/profiles/nano.toml"
    profile: Any = tomlkit.parse(path.read_text())
    profile["grpo"].update(steps=1, prompts=4, group=4, warmup=0)
    profile["rollouts"] = 4
    path.write_text(tomlkit.dumps(profile))
    path = folder / "contracts/v1.toml"
    contract: Any = tomlkit.parse(path.read_text())
    for suite in contract["suites"]:
        suite["items"] = 8
    path.write_text(tomlkit.dumps(contract))


def table(nights: list[dict[str, Any]]) -> str:
    """Markdown: a row a suite and seed."""
    head = "| seed | suite | champion % | challenger % | difference [95 %] | gate |"
    lines = [head, "|---" * 6 + "|"]
    for seed, result in enumerate(nights):
        for row in result["verdict"]["rows"]:
            before, after = 100 * row["champion"], 100 * row["challenger"]
            gain = f"{100 * row['difference']:+.1f}"
            span = f"[{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
            gate = (
                "gain"
                if row["improved"]
                else "not worse"
                if row["gate"] == "pass"
                else "may be worse"
            )
            lines.append(
                f"| {seed} | {row['suite']} | {before:.1f} | {after:.1f} | {gain} {span} | {gate} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Runs the seeds and prints their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one tiny cycle, within 50 s")
    parser.add_argument("--keep", type=Path, help="keep the clones here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        if options.quick:
            report_quick(quick_night(folder / "quick"))
            return
        nights = [night(folder / f"seed-{seed}", seed) for seed in range(options.seeds)]
    print(table(nights))
    report(nights)


def report_quick(steps: dict[str, float]) -> None:
    """The METRIC lines of a tiny cycle."""
    for step, seconds in steps.items():
        metric(f"tiny_{step}_seconds", seconds, "s")
    metric("tiny_steps_seconds", sum(steps.values()), "s")


def report(nights: list[dict[str, Any]]) -> None:
    """The METRIC lines."""
    verdicts = [result["verdict"] for result in nights]
    promoted = sum(v["decision"] == "promoted" for v in verdicts)
    metric("promoted_share", promoted / len(nights), "of_seeds", ">=", 1.0)
    for place, first in enumerate(verdicts[0]["rows"]):
        rows = [v["rows"][place] for v in verdicts]
        name = first["suite"]
        metric(f"{name}_gain_median", 100 * median(r["difference"] for r in rows), "points")
        if first["role"] == "improve":
            improved = sum(r["improved"] for r in rows) / len(rows)
            metric(f"{name}_significant_share", improved, "of_seeds", ">=", 1.0)
        else:
            kept = sum(r["not_worse"] for r in rows) / len(rows)
            metric(f"{name}_not_worse_share", kept, "of_seeds", ">=", 1.0)
    for step in nights[0]["steps"]:
        metric(f"{step}_seconds_median", median(r["steps"][step] for r in nights), "s")
    outside = median(r["seconds"] - sum(r["steps"].values()) for r in nights)
    metric("outside_steps_seconds_median", outside, "s")
    metric("cycle_seconds_median", median(r["seconds"] for r in nights), "s", "<=", 180.0)


if __name__ == "__main__":
    main()
