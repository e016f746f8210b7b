"""The shipped environments with tools: orders and offers, their splits, and what passes."""

import itertools
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import surface_policies as policies
from macaron.environments import environment, environments, verify, worlds
from macaron.environments.base import Split, Task
from macaron.environments.offers import END, TERMS, Offers, offers
from macaron.environments.orders import DECOYS, Orders, orders, right_deeds
from macaron.environments.splits import entity_split, text_split
from macaron.harness.namespace import Namespace
from macaron.harness.session import Session
from macaron.harness.tools import ToolBox
from macaron.harness.turn import Turn
from macaron.hcp.document import HCP, load_hcp

ROOT = Path(__file__).parents[2]
NAMES = ("orders", "offers")


def tasks(name: str, split: Split, n: int, kind: str | None = None) -> list[Task]:
    rng = random.Random(f"{name} {split}")
    return [environment(name).sample(rng, split, kind) for _ in range(n)]


def test_they_are_found_by_name_and_fill_no_bank() -> None:
    assert tuple(worlds()) == NAMES
    assert not set(worlds()) & set(environments())
    assert [w.specialist for w in worlds().values()] == ["L1", "L1"]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_tasks_of_every_kind(name: str) -> None:
    assert tasks(name, "train", 20) == tasks(name, "train", 20)
    made = environment(name)
    for kind in made.kinds:
        for split in ("train", "sealed"):
            task = made.sample(random.Random(1), split, kind)
            assert (task.kind, task.split) == (kind, split)
            assert Task.from_json(task.to_json()).id == task.id


@pytest.mark.parametrize("name", NAMES)
def test_the_splits_share_no_prompt_and_no_number(name: str) -> None:
    train, sealed = tasks(name, "train", 300), tasks(name, "sealed", 300)
    assert {str(t.messages) for t in train}.isdisjoint({str(t.messages) for t in sealed})
    for split, group in (("train", train), ("sealed", sealed)):
        assert {text_split(t.messages) for t in group} == {split}
        for task in group:
            entities = [task.data.get("first"), task.data.get("over")]
            assert {entity_split(str(n)) for n in entities if n is not None} <= {split}


def test_pairs_of_terms_are_of_one_split_and_all_terms_of_both() -> None:
    seen: dict[str, set[Any]] = {}
    for split in ("train", "sealed"):
        texts = [o.text for t in tasks("offers", split, 400) for o in offers(t.data, t.split)]
        seen[split] = {text.split(". ", 1)[1] for text in texts}
        for wish in TERMS.values():
            for words in (*wish[True], *wish[False]):
                assert any(words in text for text in texts)
        assert {entity_split(text.split()[0]) for text in texts} == {split}
    assert seen["train"].isdisjoint(seen["sealed"])


def test_both_deeds_and_the_edge_are_in_every_task() -> None:
    for task in tasks("orders", "train", 100):
        deeds = [d for d in right_deeds(task.data).values() if d]
        assert set(deeds) == {"refund", "ship"}
        assert len(deeds) == task.data["size"]
        assert task.reference == str(deeds.count("refund"))
        known = orders(task.data)
        assert len(known) == task.data["size"] + 2 * DECOYS
        if task.data["over"] is not None:
            assert task.data["over"] in [o.amount for o in known.values()]
    for task in tasks("offers", "train", 100):
        assert {o.right for o in offers(task.data, task.split)} == {True, False}


def right(task: Task, box: ToolBox) -> None:
    """Does all that an orders task asks for."""
    for number, deed in right_deeds(task.data).items():
        if deed:
            code = box.run("find", {"number": number})["code"]
            box.run(deed, {"code": code})


def all_refunded(task: Task, box: ToolBox) -> None:
    for number, deed in right_deeds(task.data).items():
        if deed:
            box.run("refund", {"code": box.run("find", {"number": number})["code"]})


def turned_round(task: Task, box: ToolBox) -> None:
    for number, deed in right_deeds(task.data).items():
        if deed:
            code = box.run("find", {"number": number})["code"]
            box.run("ship" if deed == "refund" else "refund", {"code": code})


def one_missing(task: Task, box: ToolBox) -> None:
    done = [(n, d) for n, d in right_deeds(task.data).items() if d]
    for number, deed in done[:-1]:
        box.run(str(deed), {"code": box.run("find", {"number": number})["code"]})


def one_too_many(task: Task, box: ToolBox) -> None:
    right(task, box)
    box.run("ship", {"code": box.run("find", {"number": task.data["first"] - 1})["code"]})


def nothing(task: Task, box: ToolBox) -> None:
    del task, box


@pytest.mark.parametrize("deeds", [all_refunded, turned_round, one_missing, one_too_many, nothing])
def test_no_wrong_state_of_orders_passes(deeds: Callable[[Task, ToolBox], None]) -> None:
    for task in tasks("orders", "sealed", 30):
        world = Orders().world(task)
        deeds(task, ToolBox(world.tools()))
        for answer in (task.reference, "", "0", str(task.data["size"])):
            assert world.score(answer).reward == 0.0


@pytest.mark.parametrize("answer", ["", "none", "0", "0 1 2 3 4 5 6 7 8", "-1"])
def test_right_orders_with_a_wrong_answer_do_not_pass(answer: str) -> None:
    for task in tasks("orders", "train", 10):
        world = Orders().world(task)
        right(task, ToolBox(world.tools()))
        assert world.score(answer).reward == 0.0
        assert world.score(f"{task.reference} refunds.").reward == 1.0


def test_what_is_done_is_done_and_codes_are_told_by_the_look_up_only() -> None:
    task = tasks("orders", "train", 1)[0]
    box = ToolBox(Orders().world(task).tools())
    code = box.run("find", {"number": task.data["first"]})["code"]
    assert box.call("refund", f'{{"code": "{code}"}}') == "done"
    assert box.call("ship", f'{{"code": "{code}"}}') == f"Error: the order {code} is closed"
    assert box.call("ship", '{"code": "Zzz"}') == "Error: no order has the code 'Zzz'"
    assert box.call("find", '{"number": 9999}') == "Error: there is no order 9999"
    codes = [{o.code for o in orders(t.data).values()} for t in tasks("orders", "train", 40)]
    assert max(len(a & b) for a, b in itertools.pairwise(codes)) < 5


@pytest.mark.parametrize("decide", [lambda i: True, lambda i: False, lambda i: i % 2 == 0])
def test_no_blind_decision_on_offers_passes(decide: Callable[[int], bool]) -> None:
    passed = 0
    for task in tasks("offers", "sealed", 60, "back-8"):
        world = Offers().world(task)
        box = ToolBox(world.tools())
        for i in range(task.data["size"]):
            box.run("read_offer", {})
            box.run("accept" if decide(i) else "decline", {})
        passed += world.score(task.reference).reward == 1.0
    assert passed <= 2


def test_an_offer_must_be_read_and_there_is_no_looking_ahead() -> None:
    task = tasks("offers", "train", 1, "new-4")[0]
    world = Offers().world(task)
    box = ToolBox(world.tools())
    assert box.call("accept", "") == "Error: read the open offer first"
    first = box.call("read_offer", "")
    assert box.call("read_offer", "") == first
    for offer in offers(task.data, task.split):
        assert box.call("read_offer", "") == offer.text
        box.run("accept" if offer.right else "decline", {})
    assert box.call("read_offer", "") == END
    assert box.call("accept", "").startswith("Error: read")
    assert world.score(task.reference).reward == 1.0
    assert world.score("0").reward == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_answers_alone_are_worth_nothing(name: str) -> None:
    found = tasks(name, "sealed", 20)
    assert {s.reward for s in verify(found, [t.reference for t in found])} == {0.0}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(ROOT / "models/nano")


@pytest.fixture
def sessions() -> Iterator[Callable[[HCP, Any, Any], Session]]:
    """Makes sessions, and closes them."""
    made: list[Session] = []

    def session(hcp: HCP, tokenizer: Any, world: Any) -> Session:
        made.append(
            Session(
                tokenizer,
                hcp,
                {"environment": world.tools()},
                namespaces=lambda seed: Namespace(hcp.workspace, seed=seed),
                window=8192,
            )
        )
        return made[-1]

    yield session
    for one in made:
        one.close()


def surface(name: str, wanted: str) -> HCP:
    """The environment's shipped harness with another surface, and room for long responses."""
    hcp = load_hcp(ROOT / f"contracts/hcp/{name}.toml")
    changed = hcp.specialists["L1"].model_copy(update={"surface": wanted, "max_tokens": 4096})
    return hcp.model_copy(update={"specialists": {"L1": changed}})


def played(
    sessions: Callable[[HCP, Any, Any], Session],
    tokenizer: Any,
    task: Task,
    wanted: str,
    policy: policies.Policy,
) -> tuple[Turn, float | None]:
    name = task.environment
    world = worlds()[name].world(task)
    turn = policies.play(sessions(surface(name, wanted), tokenizer, world), tokenizer, task, policy)
    assert turn.stop_reason == "answer"
    return turn, world.score(turn.answer).reward


def test_the_shipped_harnesses_have_the_surface_that_does_better() -> None:
    assert load_hcp(ROOT / "contracts/hcp/orders.toml").specialists["L1"].surface == "repl"
    assert load_hcp(ROOT / "contracts/hcp/offers.toml").specialists["L1"].surface == "functions"


@pytest.mark.parametrize("rule", ["late", "over"])
def test_48_rounds_of_calls_are_a_few_of_code(
    rule: str, tokenizer: Any, sessions: Callable[[HCP, Any, Any], Session]
) -> None:
    [task] = tasks("orders", "sealed", 1, f"{rule}-24")
    calls, reward = played(sessions, tokenizer, task, "functions", policies.orders_functions)
    assert (calls.rounds, calls.calls, reward) == (49, 48, 1.0)
    at_once, reward = played(sessions, tokenizer, task, "functions", policies.orders_parallel)
    assert (at_once.rounds, at_once.calls, reward) == (3, 48, 1.0)
    code, reward = played(sessions, tokenizer, task, "repl", policies.orders_repl)
    assert (code.rounds <= 6, code.calls, reward) == (True, 49, 1.0)
    assert 5 * sum(code.loss_mask) < sum(at_once.loss_mask) < sum(calls.loss_mask)


def test_offers_are_decided_right_where_each_is_read_and_wrong_by_a_loop(
    tokenizer: Any, sessions: Callable[[HCP, Any, Any], Session]
) -> None:
    looped = []
    for task in [
        t for w in ("back", "soon", "new") for t in tasks("offers", "sealed", 3, f"{w}-8")
    ]:
        loop, reward = played(sessions, tokenizer, task, "repl", policies.offers_repl)
        assert loop.rounds == 3
        looped.append(reward)
        turn, reward = played(sessions, tokenizer, task, "functions", policies.offers_functions)
        assert (turn.rounds, reward) == (10, 1.0)
    assert looped.count(1.0) <= 2
    careful, reward = played(sessions, tokenizer, task, "repl", policies.offers_careful)
    assert (careful.rounds, reward) == (10, 1.0)


def test_a_prompt_says_how_many_orders_there_are() -> None:
    for task in tasks("orders", "train", 30):
        numbers = re.findall(r"\d+", task.messages[0]["content"])
        assert str(task.data["size"]) in numbers
        assert str(task.data["first"]) in numbers
