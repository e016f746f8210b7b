"""Whole turns over the service, in one process: what of a turn goes to routing and summaries.

The project, its pair and its timeline are real; there is no HTTP between. The adapters are those of
this project's champion where it has one (`macaron improve` makes it), so that turns are routed and
answered as users meet them; else untrained ones, whose answers are shorter. Every session talks to
several specialists, and answers longer than the small summary budget are summed up, so that both
hops are paid for. Between two turns a user pauses, for a tenth of what reading takes people;
without a pause, a turn that goes to another specialist has to wait for the summary of the one
before, which is measured beside it.
"""

import asyncio
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks._deployed import HOUSE, deploy
from benchmarks._report import metric
from macaron.cli.project import holder, versions
from macaron.environments import environment
from macaron.mindforge.stores import pair_store
from macaron.serve.opening import Opening, local_engine, open_service
from macaron.serve.records import TurnRecord
from macaron.serve.service import Limits, MolService
from macaron.serve.sql.timeline import open_timeline
from macaron.serve.turns import TurnRequest
from macaron.settings import load_settings

FAMILIES = ("chat", "agent", "coding", "genui")
SUMMARY_TOKENS = 12
PAUSE = 0.5
"""Between two turns of a user, seconds on average."""
HOPS = ("route", "summary_wait")
TARGET_SHARE = 0.10
"""Of a turn, in route and summary on the critical path; the report's server: 0.32."""


def requests(session: int, turns: int) -> list[str]:
    """What one user says: the families' own questions, mixed."""
    rng = random.Random(f"serving {session}")
    texts = []
    for _ in range(turns):
        task = environment(rng.choice(FAMILIES)).sample(rng, "train")
        texts.append(task.messages[-1]["content"])
    return texts


async def talk(
    service: MolService, session: int, turns: int, pause: float = 0.0
) -> list[TurnRecord]:
    """One session, a turn after another, with so many seconds between them on average."""
    rng = random.Random(f"pause {session}")
    done: list[TurnRecord] = []
    for text in requests(session, turns):
        messages: Any = [{"role": "user", "content": text}]
        request = TurnRequest(kind="response", key="bench", messages=messages)
        opened = await service.begin(replace(request, previous=done[-1].id if done else None))
        async for _ in opened.events():
            pass
        await opened.offer()
        await opened.deliver()
        await asyncio.sleep(pause * rng.uniform(0.5, 1.5))
        done += opened.records
    return done


def share(records: Sequence[TurnRecord], *hops: str) -> float:
    """Time in these hops over the time of whole turns."""
    timings = [record.timings_ms for record in records]
    return sum(t[hop] for t in timings for hop in hops) / sum(t["turn"] for t in timings)


def champion() -> Path | None:
    """Folder of this project's champion; None where no cycle ever ran."""
    settings = load_settings(HOUSE)
    found = holder(versions(settings), "champion")
    return pair_store(settings).folder(found.pair_id) if found else None


async def measure_turns(sizes: Sequence[int], turns: int) -> bool:
    """Prints the figures for so many sessions at once."""
    with tempfile.TemporaryDirectory() as folder:
        deployed = deploy(
            Path(folder) / "project", pairs=1, noise=0.0, summary_tokens=SUMMARY_TOKENS
        )
        opening = Opening(deployed.settings, limits=Limits(running=256, look_s=3600))
        engine = local_engine(opening, rows=64, cache_bytes=256 << 20, threads=1)
        timeline = await open_timeline(f"sqlite:///{folder}/timeline.db")
        service = open_service(opening, engine, timeline)
        await service.start()
        await talk(service, 0, 4)
        fine = True
        for size in sizes:
            for pause in (PAUSE, 0.0):
                began = asyncio.get_running_loop().time()
                sessions = [talk(service, 1000 * size + n, turns, pause) for n in range(size)]
                records = [r for done in await asyncio.gather(*sessions) for r in done]
                took = asyncio.get_running_loop().time() - began
                fine &= _print(size, records, took, pause)
        stats = engine.stats()
        metric("serving_prefix_hits", stats.cached_tokens / stats.prompt_tokens, "share")
        await service.close()
    return fine


def _print(size: int, records: Sequence[TurnRecord], took: float, pause: float) -> bool:
    name = f"serving_turns_{size}" + ("" if pause else "_at_once")
    if pause:
        metric(f"{name}_route", share(records, "route"), "share")
        return metric(f"{name}_hops", share(records, *HOPS), "share", "<=", TARGET_SHARE)
    firsts = [r.timings_ms["route"] + r.timings_ms["first_token"] for r in records]
    sampled = sum(r.usage["completion_tokens"] for r in records)
    metric(f"{name}_rate", len(records) / took, "turns/s")
    metric(f"{name}_tokens", sampled / took, "tokens/s")
    metric(f"{name}_first_token", median(firsts), "ms")
    metric(f"{name}_answer_tokens", mean(len(r.tail_ids) for r in records), "tokens")
    metric(f"{name}_route", share(records, "route"), "share")
    return metric(f"{name}_hops", share(records, *HOPS), "share")
