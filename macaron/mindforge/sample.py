"""The sample of served turns that the first run imports: `python -m macaron.mindforge.sample`.

The answers are the ancestor pair's own, made by the harness on train tasks; a simulated user rates
some and corrects some, and a few lines are broken on purpose, as an export from the field would
be. It is data for a first run and for tests, never for an evaluation.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from macaron.environments import ROUTED, environments
from macaron.environments.base import Task
from macaron.files import write_atomic
from macaron.hcp.document import load_hcp
from macaron.mindforge.begin import ANCESTOR_SEED
from macaron.mindforge.rollout import Pool, Request, run
from macaron.mint.revision import identity_adapters
from macaron.pair import base_digest
from macaron.profile import load_profile
from macaron.registry.pairs import PairStore
from macaron.settings import load_settings

FIRST_DAY = datetime(2026, 11, 29, 8, tzinfo=UTC)

BROKEN = (
    '{"messages": [{"role": "user", "content": "Who has the key?"}',
    '{"messages": []}',
    '{"messages": [{"role": "user", "content": "Say yes."}]}',
    '{"messages": [{"role": "robot", "content": "beep"}, {"role": "assistant", "content": "ok"}]}',
    '{"messages": [{"role": "user", "content": 7}, {"role": "assistant", "content": "ok"}]}',
    '["not", "an", "object"]',
    '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],'
    ' "rating": 11}',
    '{"messages": [{"role": "tool", "content": "42", "tool_call_id": "x"},'
    ' {"role": "assistant", "content": "42"}]}',
)
"""One of each fault that exports have."""


def turns(per_environment: int, seed: int) -> list[dict[str, Any]]:
    """Rated and corrected turns as OpenAI-style chat records, in the order of their times."""
    rng = random.Random(seed)
    tasks = {
        name: [environment.sample(rng, "train") for _ in range(per_environment)]
        for name, environment in environments().items()
        if name not in ROUTED
    }
    rows = _answers(tasks, seed)
    rng.shuffle(rows)
    return [_record(row, n, rng) for n, row in enumerate(rows)]


def _answers(tasks: dict[str, list[Task]], seed: int) -> list[dict[str, Any]]:
    settings = load_settings()
    profile = load_profile(settings.path("models/profiles/nano.toml"))
    base, hcp = settings.path(profile.base), settings.path("contracts/hcp/nano.toml")
    pool = Pool(base, profile.dtype, profile.sample_batch, settings.workers, timeout=600)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = tuple(load_hcp(hcp).specialists)
        identity_adapters(base, profile.lora, folder / "adapters", keys, ANCESTOR_SEED)
        adapters = {key: folder / "adapters" / key for key in keys}
        store = PairStore(folder / "pairs")
        pair = store.create(base_digest(base), adapters, hcp, parent=None, generation=0)
        requests = [
            Request(store.folder(pair.id), environment, items, 1.0, seed)
            for environment, items in tasks.items()
        ]
        rows: list[dict[str, Any]] = run(pool, requests, folder / "work").to_pylist()
    return rows


def _record(row: dict[str, Any], number: int, rng: random.Random) -> dict[str, Any]:
    """A turn as an application would export it; the user reacts to about two in three."""
    task = json.loads(row["task"])
    messages = [{"role": m["role"], "content": m["content"]} for m in row["messages"]]
    record = {
        "id": f"turn-{number:04d}",
        "created_at": (FIRST_DAY + timedelta(seconds=97 * number)).isoformat(),
        "specialist": row["specialist"],
        "pair": row["pair"],
        "hcp": row["hcp"],
        "environment": row["environment"],
        "kind": row["kind"],
        "task": task,
        "messages": messages,
    }
    return record | _reaction(row["reward"] == 1.0, task["reference"], rng)


def _reaction(right: bool, reference: str, rng: random.Random) -> dict[str, Any]:
    chance = rng.random()
    if right:
        return {"rating": 1} if chance < 0.4 else {"outcome": "success"} if chance < 0.6 else {}
    if chance < 0.45:
        return {"rating": -1, "correction": reference}
    if chance < 0.7:
        return {"rating": -1}
    return {"outcome": "failure"} if chance < 0.8 else {}


def lines(records: list[dict[str, Any]], broken: int, seed: int) -> Iterator[str]:
    """The records as JSON lines with broken ones among them."""
    rng = random.Random(seed)
    spots = set(rng.sample(range(len(records)), broken))
    for number, record in enumerate(records):
        if number in spots:
            yield rng.choice(BROKEN)
        yield json.dumps(record, ensure_ascii=False, sort_keys=True)


def main() -> None:
    """Writes the sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--per-environment", type=int, default=90, help="turns of each")
    parser.add_argument("--broken", type=int, default=20, help="broken lines among them")
    parser.add_argument("--seed", type=int, default=20261130)
    options = parser.parse_args()
    records = turns(options.per_environment, options.seed)
    text = "".join(line + "\n" for line in lines(records, options.broken, options.seed))
    write_atomic(options.out, text)


if __name__ == "__main__":
    main()
