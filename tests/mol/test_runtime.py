"""Rollouts and served sessions are the same: same pair, seed and messages, same tokens."""

import random
from pathlib import Path
from typing import Any

import pytest

from macaron.engines.local import load_local
from macaron.engines.randomness import derive
from macaron.environments import environment
from macaron.environments.base import Task
from macaron.errors import DigestError
from macaron.harness.turn import Turn
from macaron.hcp.document import load_hcp
from macaron.mindforge.rollout import Pool, Request, run
from macaron.mint.revision import identity_adapters
from macaron.mol.runtime import Runtime, runtime_of
from macaron.pair import HCP_FILE, Pair, adapter_path, base_digest
from macaron.profile import LoraConfig
from macaron.registry.pairs import PairStore
from tests.project import HOUSE

BASE = HOUSE / "models/nano"
HOT = 1.0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, Path]:
    """The ancestor of the shipped base and harness, in a store."""
    folder = tmp_path_factory.mktemp("pair")
    hcp = HOUSE / "contracts/hcp/nano.toml"
    keys = tuple(load_hcp(hcp).specialists)
    identity_adapters(BASE, LoraConfig(rank=8, alpha=16), folder / "made", keys, seed=0)
    made = {key: folder / "made" / key for key in keys}
    store = PairStore(folder / "pairs")
    found = store.create(base_digest(BASE), made, hcp, parent=None, generation=0)
    return found, store.folder(found.id)


@pytest.fixture(scope="module")
def served(pair: tuple[Pair, Path]) -> Runtime:
    from transformers import AutoTokenizer

    manifest, folder = pair
    adapters = {rev: adapter_path(folder, key) for key, rev in manifest.adapters.items()}
    engine = load_local(BASE, adapters)
    return runtime_of(manifest, folder, engine, AutoTokenizer.from_pretrained(BASE))


def tasks(name: str, count: int) -> list[Task]:
    rng = random.Random(f"runtime {name}")
    return [environment(name).sample(rng, "train") for _ in range(count)]


def serve(runtime: Runtime, task: Task, seed: int) -> Turn:
    """One user's session, alone on the engine."""
    session = runtime.session(seed, temperature=HOT)
    [turn] = runtime.turns([(session, task.messages, task.specialist)])
    session.deliver()
    session.close()
    return turn


@pytest.mark.full
@pytest.mark.parametrize("name", ["chat", "agent", "coding", "genui"])
def test_a_rollout_is_a_served_session(
    pair: tuple[Pair, Path], served: Runtime, tmp_path: Path, name: str
) -> None:
    asked = tasks(name, 12)
    pool = Pool(base=BASE, dtype="float32", chunk=5, workers=2, timeout=300)
    table = run(pool, [Request(pair[1], name, asked, HOT, seed=7)], tmp_path)
    rows: dict[str, dict[str, Any]] = {row["session"]: row for row in table.to_pylist()}
    assert len({tuple(row["token_ids"]) for row in rows.values()}) > 1
    for task in asked:
        row = rows[task.id]
        turn = serve(served, task, row["seed"])
        assert turn.token_ids == tuple(row["token_ids"])
        assert turn.loss_mask == tuple(row["loss_mask"])
        assert turn.logprobs == pytest.approx(row["logprobs"], abs=1e-4)
        assert turn.stop_reason == row["stop_reason"]
        assert row["messages"][-1]["content"] == turn.answer
        assert row["hcp"] == served.hcp.digest


def test_a_session_depends_on_its_seed_and_on_nothing_beside_it(served: Runtime) -> None:
    asked = tasks("chat", 6)
    seeds = [derive("test", n) for n in range(6)]
    sessions = [served.session(seed, temperature=HOT) for seed in seeds]
    starts = zip(sessions, asked, strict=True)
    together = served.turns([(s, task.messages, task.specialist) for s, task in starts])
    alone = [serve(served, task, seed) for task, seed in zip(asked, seeds, strict=True)]
    assert [t.token_ids for t in together] == [t.token_ids for t in alone]
    other = [serve(served, task, seed + 1) for task, seed in zip(asked, seeds, strict=True)]
    assert [t.token_ids for t in other] != [t.token_ids for t in alone]


def test_a_pair_with_another_harness_in_its_folder_is_refused(
    pair: tuple[Pair, Path], served: Runtime, tmp_path: Path
) -> None:
    text = (pair[1] / HCP_FILE).read_text().replace('"agent"', '"Agent"')
    (tmp_path / HCP_FILE).write_text(text)
    with pytest.raises(DigestError, match="the pair's is"):
        runtime_of(pair[0], tmp_path, served.engine, served.tokenizer)
