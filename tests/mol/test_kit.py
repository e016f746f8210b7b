"""A helper: saved and promoted in one session, called in the next, carried by the next pair."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from macaron.engines.base import Completion
from macaron.environments import references, worlds
from macaron.environments.base import Task
from macaron.environments.orders import SETTLE
from macaron.harness.pool.carry import carry
from macaron.harness.pool.live import LivePool, Origin, Snapshot
from macaron.harness.turn import Request, Turn
from macaron.hcp.document import HCP, load_hcp
from macaron.mol.kit import Workshop
from macaron.mol.runtime import Runtime
from macaron.pool.packed import load_packed
from tests.harness.play import call
from tests.project import HOUSE

PAIR = "a" * 16
SOURCE = """\
def settle(first, size, over):
    refunds = 0
    for number in range(first, first + size):
        order = find(number=number)
        late = order["late"] if over is None else order["amount"] > over
        (refund if late else ship)(code=order["code"])
        refunds += late
    return refunds
"""
WRONG = SOURCE.replace("> over", ">= over")
TEXT = {"type": "string"}


def harness(surface: str) -> HCP:
    """The environment's own, with the pool's builtins and a slot for the helper."""
    hcp = load_hcp(HOUSE / "contracts/hcp/orders.toml").model_dump(mode="json")
    helpers = {
        "save_tool": {"source": "builtin", "parameters": _object(source=TEXT)},
        "promote_tool": {"source": "builtin", "parameters": _object(name=TEXT)},
        "settle": {"source": "pool", "parameters": dict(SETTLE.parameters)},
    }
    hcp["tools"] |= {name: tool | {"description": name} for name, tool in helpers.items()}
    hcp["specialists"]["L1"] |= {"surface": surface, "tools": [*hcp["tools"]]}
    return HCP.model_validate(hcp)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(HOUSE / "models/nano")


@pytest.fixture
def pool(tmp_path: Path) -> LivePool:
    return LivePool(tmp_path / "pool", None, [PAIR])


def runtime(tokenizer: Any, surface: str, pool: LivePool | None = None, **more: Any) -> Runtime:
    workshop = Workshop(pool, references(), seed=11) if pool else None
    # Its responses are written here; no engine is asked.
    engine: Any = None
    hcp = harness(surface)
    return Runtime(hcp, tokenizer, {}, workshop=workshop, window=10_000, engine=engine, **more)


def act(
    made: Runtime, task: Task, *responses: str, scratch: Workshop | None = None
) -> tuple[float | None, list[str]]:
    """A session with these responses: what it is worth, and what the tools said."""
    world = worlds()["orders"].world(task)
    session = made.session(1, world.tools(), origin=Origin("s1", task.id), scratch=scratch)
    state: Request | Turn = session.begin(task.messages, "L1")
    for response in responses:
        ids = [*made.tokenizer.encode(response, add_special_tokens=False)]
        ids.append(made.tokenizer.eos_token_id)
        state = session.advance(Completion(ids, [0.0] * len(ids), "stop"))
    assert isinstance(state, Turn), state
    session.close()
    said = [m["content"] for m in state.messages if m["role"] == "tool"]
    return world.score(state.answer).reward, said


def task(kind: str, seed: int) -> Task:
    return worlds()["orders"].sample(random.Random(seed), "train", kind)


def settle(given: Task) -> dict[str, Any]:
    return {name: given.data[name] for name in ("first", "size", "over")}


def right(given: Task) -> str:
    return given.reference


def save(source: str) -> tuple[str, str]:
    return (
        call("save_tool", json.dumps({"source": source})),
        call("promote_tool", '{"name": "settle"}'),
    )


def test_a_helper_is_callable_in_later_sessions_only(tokenizer: Any, pool: LivePool) -> None:
    made, first, later = runtime(tokenizer, "functions", pool), task("over-4", 1), task("over-8", 2)
    tried = call("settle", json.dumps(settle(first)))
    _, said = act(made, first, *save(SOURCE), tried, "0")
    assert said[1].startswith("promoted settle")
    assert said[2].startswith("Error: no tool is named 'settle'")

    used = call("settle", json.dumps(settle(later)))
    reward, said = act(made, later, used, right(later))
    assert (reward, said) == (1.0, [later.reference])


def test_on_the_repl_it_is_a_function(tokenizer: Any, pool: LivePool) -> None:
    made, later = runtime(tokenizer, "repl", pool), task("late-4", 3)
    cell = f"```python\nsave_tool(source={SOURCE!r})\nprint(promote_tool(name='settle'))\n```"
    _, said = act(made, task("late-4", 4), cell, "0")
    assert said[0].startswith("promoted settle")
    arguments = ", ".join(f"{name}={value}" for name, value in settle(later).items())
    reward, said = act(made, later, f"```python\nprint(settle({arguments}))\n```", right(later))
    assert (reward, said) == (1.0, [later.reference])


def test_a_wrong_helper_is_not_promoted_and_nothing_of_the_references_is_told(
    tokenizer: Any, pool: LivePool
) -> None:
    made = runtime(tokenizer, "functions", pool)
    _, said = act(made, task("over-4", 5), *save(WRONG), "0")
    assert said[1].startswith("not promoted:")
    assert not any(code in said[1] for code in ("first", "late", "amount", "code"))
    assert pool.snapshot() == Snapshot()


def test_the_next_pair_carries_it_and_its_rollouts_can_call_it(
    tokenizer: Any, pool: LivePool, tmp_path: Path
) -> None:
    act(runtime(tokenizer, "functions", pool), task("over-4", 6), *save(SOURCE), "0")
    folder = carry(pool, tmp_path / "tools")
    assert folder is not None
    carried = Snapshot.of(load_packed(folder))
    made, later = runtime(tokenizer, "functions", carried=carried), task("late-8", 7)
    used = call("settle", json.dumps(settle(later)))
    scratch = Workshop(LivePool(tmp_path / "scratch", None, ["rollout"]), references(), seed=1)
    reward, said = act(made, later, used, *save(WRONG), right(later), scratch=scratch)
    assert (reward, said[0]) == (1.0, later.reference)
    assert said[1].startswith("saved") and said[2].startswith("not promoted")
    assert len(pool.state().of_name("settle")) == 1, "a rollout leaves nothing"
