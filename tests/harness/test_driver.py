"""Many sessions at once on a real engine: a session's turns don't depend on its neighbours."""

import copy
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from macaron.engines.base import Completion, Engine, SampleParams
from macaron.harness.driver import run_turns
from macaron.harness.session import Session
from macaron.harness.tools import Tool
from macaron.harness.turn import Turn
from tests.harness.play import ADD, call, completion, environment, harness, user
from tests.tiny import tiny_base


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, Any]:
    from transformers import AutoTokenizer

    from macaron.engines.local import load_local

    folder = tiny_base(tmp_path_factory.mktemp("base"))
    return load_local(folder, {}, threads=1), AutoTokenizer.from_pretrained(folder)


def starts(tokenizer: Any, seeds: Sequence[int]) -> list[tuple[Session, list[Any], str]]:
    hcp = harness(tools=[], max_tokens=12)
    return [(Session(tokenizer, hcp, seed=n), [user("Hello" * (1 + n % 3))], "L1") for n in seeds]


def same(one: Turn, other: Turn) -> None:
    assert one.token_ids == other.token_ids and one.stop_reason == other.stop_reason
    assert one.messages == other.messages and one.loss_mask == other.loss_mask
    assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_session_alone_and_among_others_is_the_same(base: tuple[Engine, Any]) -> None:
    engine, tokenizer = base
    together = run_turns(engine, {"L1": None}, starts(tokenizer, range(7)))
    for n in range(7):
        (alone,) = run_turns(engine, {"L1": None}, starts(tokenizer, [n]))
        same(alone, together[n])
    assert len({turn.token_ids for turn in together}) == 7


def test_served_one_step_at_a_time_is_the_rollout(base: tuple[Engine, Any]) -> None:
    engine, tokenizer = base
    talk = ["Hello", "Go on", "And then?"]
    rolled, served = (starts(tokenizer, [5])[0][0] for _ in range(2))
    for text in talk:
        (rollout,) = run_turns(engine, {"L1": None}, [(rolled, [user(text)], "L1")])
        request = served.begin([user(text)], "L1")
        while not isinstance(request, Turn):
            ((done,),) = engine.sample([request.prompt], None, request.params)
            request = served.advance(done)
        same(rollout, request)
        rolled.deliver()
        served.deliver()


class Script:
    """An engine whose responses depend on the prompt's text; it keeps how it was asked."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.asked: list[tuple[str | None, SampleParams, int]] = []

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        adapter: str | None,
        params: SampleParams,
        n: int = 1,
        seeds: Sequence[int] | None = None,
    ) -> list[list[Completion]]:
        assert seeds is not None and len(seeds) == len(prompts) and params.seed == 0
        self.asked.append((adapter, params, len(prompts)))
        return [[self._respond(prompt)] for prompt in prompts]

    def _respond(self, prompt: Sequence[int]) -> Completion:
        _, called, result = self.tokenizer.decode(prompt).rpartition("<|im_start|>tool\n")
        if called:
            return completion(self.tokenizer, f"So: {result.partition('<|im_end|>')[0][:12]}")
        wrong = "wrong<|im_end|>" in result
        first = "<tool_call>{" if wrong else call("add", '{"a": 1, "b": 2}')
        return completion(self.tokenizer, first)

    def rank(self, *_: Any) -> list[list[float]]:
        raise AssertionError("nothing is ranked here")


def test_requests_are_batched_by_adapter_and_parameters(chatml: Any) -> None:
    hcp = harness()
    other = hcp.specialists["L1"].model_copy(update={"name": "other", "max_tokens": 9})
    hcp = hcp.model_copy(update={"specialists": {**hcp.specialists, "L2": other}})
    sessions = [Session(chatml, hcp, {"environment": environment()}) for _ in range(5)]
    keys = ["L1", "L2", "L1", "L1", "L2"]
    begun = [(s, [user("Add")], key) for s, key in zip(sessions, keys, strict=True)]
    engine = Script(chatml)
    turns = run_turns(engine, {"L1": "rev-1", "L2": "rev-2"}, begun)
    asked = [(adapter, params.max_tokens, count) for adapter, params, count in engine.asked]
    assert asked == [("rev-1", 64, 3), ("rev-2", 9, 2)] * 2
    assert [t.specialist for t in turns] == keys
    assert [t.answer for t in turns] == ["So: 3"] * 5


def test_one_wrong_session_takes_no_other_down(chatml: Any) -> None:
    def broken(arguments: dict[str, Any]) -> Any:
        raise RuntimeError("a bug")

    tools = [{"environment": environment()} for _ in range(4)]
    tools[2] = {"environment": [Tool("add", "", ADD, broken), environment()[1]]}
    refuses = {"name": "no", "when": "before_turn", "pattern": "refuse", "action": "refuse"}
    hcp = harness({"hooks": [refuses]}, max_rounds=3)
    texts = ["Add", "wrong", "Add", "refuse"]
    begun = [
        (Session(chatml, hcp, given), [user(text)], "L1")
        for given, text in zip(tools, texts, strict=True)
    ]
    turns = run_turns(Script(chatml), {"L1": None}, begun)
    assert [t.stop_reason for t in turns] == ["answer", "answer", "tool", "refused"]
    assert turns[0].answer == "So: 3" and turns[1].answer == "So: Error: this "


def test_tools_that_wait_wait_together(chatml: Any) -> None:
    barrier = threading.Barrier(3, timeout=30)

    def wait(arguments: dict[str, Any]) -> Any:
        barrier.wait()
        return 3

    hcp = harness()
    waiting = [Tool("add", "", ADD, wait), environment()[1]]
    begun = [(Session(chatml, hcp, {"environment": waiting}), [user("Add")], "L1") for _ in "abc"]
    turns = run_turns(Script(chatml), {"L1": None}, begun)
    assert [t.answer for t in turns] == ["So: 3"] * 3, "they would wait forever one by one"


@pytest.mark.full
def test_the_shipped_base_speaks_through_sessions_as_through_prompts() -> None:
    """A turn of the nano base is the response to the prompt that training renders."""
    from transformers import AutoTokenizer

    from macaron.engines.local import load_local
    from macaron.harness.prompts import answer_prompt, answer_text
    from macaron.hcp.document import load_hcp
    from tests.project import HOUSE

    folder = Path(HOUSE / "models/nano")
    engine, tokenizer = load_local(folder, {}, threads=1), AutoTokenizer.from_pretrained(folder)
    hcp = load_hcp(HOUSE / "contracts/hcp/nano.toml")
    messages = [user("customers(): name, city, age, spend\nHow many customers are over 30?")]
    session = Session(tokenizer, hcp, seed=3)
    (turn,) = run_turns(engine, {"L1": None}, [(session, copy.deepcopy(messages), "L1")])
    prompt = answer_prompt(tokenizer, hcp, "L1", messages)
    params = SampleParams(max_tokens=64, temperature=0.0, stop_ids=(tokenizer.eos_token_id,))
    ((done,),) = engine.sample([prompt], None, params)
    assert list(turn.token_ids) == [*prompt, *done.token_ids]
    assert turn.answer == answer_text(tokenizer, done.token_ids)
