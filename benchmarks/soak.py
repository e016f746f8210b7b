"""A soak of the server: sessions that break off, SIGKILL every minute, a new champion every two.

    python -m benchmarks.soak [--quick] [--minutes 10] [--sessions 64] [--kill-every 60]

Every client notes what arrived whole. Afterwards each of these turns must be in the experience
once, with exactly the conversation that its client had, the pair that the answer named, and tokens
that an engine of another kind finds in the named adapter; other adapters would not have said them
(the adapters are random, so that each is a canary). Memory is compared within one life of the
server, from its second third to its last. `--quick`: 40 seconds, 16 sessions, more kills.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._deployed import Deployed, deploy
from benchmarks._report import metric
from benchmarks._server import Server
from benchmarks.soak_checks import check
from benchmarks.soak_clients import Client, Ledger


@dataclass(frozen=True)
class Plan:
    """How long, and how hard; seconds."""

    seconds: float
    sessions: int
    kill_every: float
    swap_every: float
    seed: int = 0


@dataclass
class Watch:
    """What the watcher saw."""

    lives: list[list[int]] = field(default_factory=lambda: [[]])
    """Resident bytes over time, a list a life of the server."""
    kills: int = 0
    swaps: int = 0
    starts: list[float] = field(default_factory=list)


async def soak(deployed: Deployed, server: Server, plan: Plan) -> tuple[Ledger, Watch]:
    """Runs clients, kills and swaps side by side."""
    ledger, watch = Ledger(), Watch()
    watch.starts.append(await asyncio.to_thread(server.start))
    until = asyncio.get_running_loop().time() + plan.seconds
    clients = [
        Client(n, server.url, ledger, plan.seed).talk(until) for n in range(1, plan.sessions + 1)
    ]
    await asyncio.gather(
        *clients,
        _kill(server, watch, plan, until),
        _swap(deployed, watch, plan, until),
        _weigh(server, watch, until),
    )
    return ledger, watch


async def _kill(server: Server, watch: Watch, plan: Plan, until: float) -> None:
    rng = random.Random(plan.seed)
    while await _pause(plan.kill_every * rng.uniform(0.9, 1.1), until):
        server.kill()
        watch.kills += 1
        watch.lives.append([])
        watch.starts.append(await asyncio.to_thread(server.start))


async def _swap(deployed: Deployed, watch: Watch, plan: Plan, until: float) -> None:
    champion = 0
    while await _pause(plan.swap_every, until):
        champion = (champion + 1) % len(deployed.pairs)
        await asyncio.to_thread(deployed.promote, champion)
        watch.swaps += 1


async def _weigh(server: Server, watch: Watch, until: float) -> None:
    while await _pause(1.0, until):
        if size := server.memory():
            watch.lives[-1].append(size)


async def _pause(seconds: float, until: float) -> bool:
    """Sleeps; whether there is time left."""
    clock = asyncio.get_running_loop().time
    await asyncio.sleep(max(0.0, min(seconds, until - clock())))
    return clock() < until


def growth(lives: list[list[int]]) -> float:
    """Of the longest life, the most memory of its last third over that of its second."""
    longest = max(lives, key=len)
    third = len(longest) // 3
    return max(longest[-third:]) / max(longest[third:-third]) if third else 1.0


def report(deployed: Deployed, ledger: Ledger, watch: Watch, plan: Plan) -> bool:
    """Prints the figures; whether all that must hold does."""
    found = check(deployed, ledger.got, plan.seed)
    print(
        f"{watch.kills} kills, {watch.swaps} swaps, starts {max(watch.starts):.1f} s at most; "
        f"{ledger.broken_off} broken off, {ledger.unanswered} unanswered, "
        f"{ledger.refused} told to come again, {found.kept - len(ledger.got)} kept unconfirmed"
    )
    for odd in [*ledger.wrong[:5], *ledger.lost[:5]]:
        print(f"  {odd}", file=sys.stderr)
    metric("soak_turns", len(ledger.got), "turns")
    return all(
        [
            metric("soak_lost", found.lost + len(ledger.lost), "turns", "<=", 0),
            metric("soak_doubled", found.doubled, "turns", "<=", 0),
            metric("soak_crossed", found.crossed, "turns", "<=", 0),
            metric("soak_other_adapter", found.other_adapter, "turns", "<=", 0),
            metric("soak_told_apart", found.told_apart / max(1, found.computed), "share"),
            metric("soak_wrong_answers", len(ledger.wrong), "answers", "<=", 0),
            metric("soak_memory_growth", growth(watch.lives), "ratio", "<=", 1.1),
        ]
    )


def main() -> None:
    """Prints a line a figure; exits with 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds")
    arguments = parser.parse_args()
    plan = Plan(60 * arguments.minutes, arguments.sessions, arguments.kill_every, 120.0)
    if arguments.quick:
        plan = Plan(20.0, 16, 9.0, 5.0)
    with tempfile.TemporaryDirectory() as folder:
        deployed = deploy(Path(folder) / "project", pairs=3, noise=0.04, summary_tokens=12)
        server = Server(deployed.settings.root)
        try:
            ledger, watch = asyncio.run(soak(deployed, server, plan))
            server.stop()
        finally:
            server.kill()
        began = time.monotonic()
        fine = report(deployed, ledger, watch, plan)
        print(f"checked in {time.monotonic() - began:.0f} s")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
