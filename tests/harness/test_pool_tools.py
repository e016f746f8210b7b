"""Tools that call the session's tools: tried on worlds of their own, called through the session."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from macaron.harness.namespace import Namespace
from macaron.harness.pool.bench import Workbench
from macaron.harness.pool.calling import functions, namespace_code
from macaron.harness.pool.judge import Uses
from macaron.harness.pool.live import LivePool
from macaron.harness.pool.references import Purpose, Reference
from macaron.harness.pool.trials import Examiner, TrialsInvalid
from macaron.harness.sandbox import Sandbox
from macaron.harness.tools import Tool, ToolBox, ToolFault
from tests.harness.pools import Rules, live, schema, session

SETTLE = """\
def settle(orders):
    refunds = 0
    for number in orders:
        try:
            found = find(number=number)
        except ToolError:
            continue
        if found["late"]:
            refund(code=found["code"])
            refunds += 1
        else:
            ship(code=found["code"])
    return refunds
"""
PURPOSE = Purpose(
    "settle",
    "Refund each late order, ship the others, skip those that do not exist; count the refunds.",
    schema(orders={"type": "array", "items": {"type": "integer"}}),
    tools=("find", "refund", "ship"),
)


class Shop:
    """Orders with codes that only a look-up tells."""

    def __init__(self, rng: random.Random) -> None:
        self.orders = {
            number: {"code": f"c{rng.randrange(10**9)}", "late": rng.random() < 0.5}
            for number in rng.sample(range(100, 999), 6)
        }
        self.asked = [*rng.sample(sorted(self.orders), 4), 5]
        rng.shuffle(self.asked)
        self.deeds: dict[str, str] = {}

    def tools(self) -> list[Tool]:
        find = Tool("find", "", schema(number={"type": "integer"}), self._find)
        return [find, *(self._deed(name) for name in ("refund", "ship"))]

    def _find(self, arguments: dict[str, Any]) -> Any:
        if arguments["number"] not in self.orders:
            raise ToolFault("there is no such order")
        return self.orders[arguments["number"]]

    def _deed(self, name: str) -> Tool:
        def call(arguments: dict[str, Any]) -> str:
            self.deeds[arguments["code"]] = name
            return "done"

        return Tool(name, "", schema(code={"type": "string"}), call)

    def right(self, refunds: Any) -> bool:
        orders = [self.orders[number] for number in self.asked if number in self.orders]
        deeds = {o["code"]: "refund" if o["late"] else "ship" for o in orders}
        return self.deeds == deeds and refunds == list(deeds.values()).count("refund")


class Shops:
    """A fresh shop a reference."""

    def purposes(self) -> Sequence[Purpose]:
        return (PURPOSE,)

    def references(self, name: str, rng: random.Random, n: int) -> Sequence[Reference]:
        shops = [Shop(rng) for _ in range(n)]
        return [
            Reference({"orders": shop.asked}, check=shop.right, tools=shop.tools())
            for shop in shops
        ]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.fixture
def pool(tmp_path: Path) -> LivePool:
    return live(tmp_path)


def bench(pool: LivePool, sandbox: Sandbox) -> ToolBox:
    made = Workbench(pool, Examiner(Shops(), sandbox, 0), Rules(), session())
    return ToolBox(made.tools())


def promoted(pool: LivePool, sandbox: Sandbox) -> None:
    box = bench(pool, sandbox)
    assert box.call("save_tool", json.dumps({"source": SETTLE})).startswith("saved settle")
    said = box.call("promote_tool", '{"name": "settle"}')
    assert said.startswith("promoted settle: 3 of 3 trials passed"), said


def test_the_workbench_says_what_it_may_call(pool: LivePool, sandbox: Sandbox) -> None:
    said = bench(pool, sandbox).tool("save_tool").description
    assert "settle(orders): Refund each late order" in said
    assert "It may call find, refund, ship." in said


def test_it_acts_on_the_sessions_world_through_the_session(
    pool: LivePool, sandbox: Sandbox
) -> None:
    promoted(pool, sandbox)
    shop, uses, made = Shop(random.Random(1)), Uses(), []
    box = ToolBox(shop.tools())

    def use(name: str, arguments: dict[str, Any]) -> Any:
        made.append(name)
        return box.run(name, arguments)

    settle = functions(pool.snapshot(), sandbox, uses, use)[0]
    assert shop.right(settle.call({"orders": shop.asked}))
    assert made.count("find") == 5 and len(made) == 9, "nine calls in one"
    assert uses.tools[pool.snapshot().tools["settle"].digest]["calls"] == 1

    def refused(name: str, arguments: dict[str, Any]) -> Any:
        raise ToolFault("a hook says no", "refused")

    careful = functions(pool.snapshot(), sandbox, uses, refused)[0]
    assert careful.call({"orders": shop.asked}) == 0
    assert functions(pool.snapshot(), sandbox, uses) == [], "not without a way to call"


def test_in_a_namespace_it_calls_the_namespaces_tools(pool: LivePool, sandbox: Sandbox) -> None:
    promoted(pool, sandbox)
    shop = Shop(random.Random(2))
    tools = {tool.name: tool for tool in shop.tools()}
    with Namespace() as namespace:
        assert namespace.run(namespace_code(pool.snapshot()), tools).outcome == "ok"
        # Redefined by the session, which a tool must not notice.
        cell = namespace.run(f"find = None\nn = settle({shop.asked})\nn", tools)
        again = namespace.run("print(n)", tools)
    assert cell.outcome == "ok" and again.printed == cell.printed
    assert shop.right(int(cell.printed))


WRONG = {
    "does nothing": "def settle(orders):\n    return 0\n",
    "refunds all": SETTLE.replace('if found["late"]', "if True"),
    "ships all": SETTLE.replace('if found["late"]', "if False"),
    "counts wrongly": SETTLE.replace("refunds += 1", "refunds += 2"),
    "stops at a fault": SETTLE.replace("            continue", "            break"),
    "does not catch": SETTLE.replace("except ToolError", "except KeyError"),
    "does it twice": SETTLE.replace("return refunds", "return settle([]) + len(orders)"),
    "leaves one out": SETTLE.replace("in orders:", "in orders[1:]:"),
    "loops": SETTLE.replace("    return refunds", "    while True: pass"),
    "calls without end": "def settle(orders):\n    while True: find(number=orders[0])\n",
    "forges an answer": "def settle(orders):\n    _answer(value=2)\n    return 2\n",
    "calls what it may not": SETTLE.replace("ship(", "delete("),
    "passes what is no JSON": SETTLE.replace("find(number=number)", "find(number={1})"),
    "ends its process": SETTLE.replace("return refunds", "raise SystemExit"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_world_left_wrong_is_a_failed_trial(pool: LivePool, sandbox: Sandbox, kind: str) -> None:
    box = bench(pool, sandbox)
    said = box.call("save_tool", json.dumps({"source": WRONG[kind]}))
    if said.startswith("saved"):
        said = box.call("promote_tool", '{"name": "settle"}')
        assert said.startswith("not promoted: "), said
    else:
        assert kind in ("forges an answer", "calls what it may not"), said
    assert pool.snapshot().tools == {}


def test_a_world_that_breaks_decides_nothing(sandbox: Sandbox, pool: LivePool) -> None:
    class Broken(Shops):
        def references(self, name: str, rng: random.Random, n: int) -> Sequence[Reference]:
            broken = Tool("find", "", schema(number={}), lambda arguments: 1 / 0)
            return [Reference({"orders": [1]}, tools=[broken])] * n

    promoted(pool, sandbox)
    tool = pool.snapshot().tools["settle"]
    with pytest.raises(TrialsInvalid, match="a tool failed: ZeroDivisionError"):
        Examiner(Broken(), sandbox, 0).examine(tool, 1, 1, "test")
