"""The first cycle, from the shipped ancestor to a verdict, over several seeds.

    python -m benchmarks.cycle [--seeds 5] [--quick] [--keep FOLDER]

Each seed is a fresh clone of the committed project with stores of its own, so that nothing carries
over. Printed: sealed success before and after for each suite and seed, the wall seconds of the
whole command and of each step.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import tomlkit

from benchmarks._report import metric
from macaron.cli.environment import cycle_environment

HOUSE = Path(__file__).parents[1]


def night(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    """One cycle in a fresh clone: {verdict, seconds, steps}."""
    subprocess.run(["git", "clone", "-q", str(HOUSE), str(folder)], check=True)
    if quick:
        _shrink(folder)
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


def _shrink(folder: Path) -> None:
    """Fewer steps and items: the same path, in seconds; its verdicts mean nothing."""
    path = folder / "models/profiles/nano.toml"
    profile: Any = tomlkit.parse(path.read_text())
    profile["grpo"].update(steps=2, prompts=4, group=4)
    profile["rollouts"] = 8
    path.write_text(tomlkit.dumps(profile))
    path = folder / "contracts/v1.toml"
    contract: Any = tomlkit.parse(path.read_text())
    for suite in contract["suites"]:
        suite["items"] = 24
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
        seeds = range(1 if options.quick else options.seeds)
        nights = [night(folder / f"seed-{seed}", seed, options.quick) for seed in seeds]
    print(table(nights))
    report(nights)


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
    metric("cycle_seconds_median", median(r["seconds"] for r in nights), "s", "<=", 180.0)


if __name__ == "__main__":
    main()
