"""The service: which specialist answers, what becomes history, and what outlives the server."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from macaron.contract.document import ExperienceGate
from macaron.errors import BusyError, ConfigError
from macaron.experience.schema import Feedback
from macaron.experience.segment import parse_segment
from macaron.experience.selection import select
from macaron.experience.store import ExperienceStore
from macaron.experience.table import from_table, to_table
from macaron.experience.validation import validate
from macaron.registry.pairs import PairStore
from macaron.serve.timeline import UnknownTurnError
from macaron.serve.turns import ClientTool, Finished, TurnError
from tests.project import HOUSE
from tests.serve.stage import BASE, ScriptEngine, Stage, answer, ask, last_said, make_pair

PAY = ClientTool(
    "pay", "Pays.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, PairStore, list[str]]]:
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("pairs")
    store = PairStore(folder / "pairs")
    made = [make_pair(store, folder / str(seed), seed).id for seed in range(3)]
    yield AutoTokenizer.from_pretrained(BASE), store, made


@pytest.fixture
def stage(pairs: Any, tmp_path: Path) -> Stage:
    tokenizer, store, made = pairs
    return Stage(tmp_path, tokenizer, ScriptEngine(tokenizer), made[0], store)


def run(work: Any) -> Any:
    return asyncio.run(work)


def rows(stage: Stage) -> dict[str, Any]:
    """The experience after compaction."""
    store = ExperienceStore(stage.folder / "experience")
    stage.log.compact(store)
    return {row.id: row for row in from_table(store.read())}


def test_one_specialist_answers_and_the_turn_is_history_and_experience(stage: Stage) -> None:
    async def play() -> Any:
        service = await stage.service()
        first = await answer(service, ask("Hello"))
        second = await answer(service, ask("@coding please", first.id))
        await service.close()
        return first, second

    first, second = run(play())
    assert (first.specialist, second.specialist) == ("L0", "L2")
    assert first.route["why"] == "routed" and 0.25 < first.route["confidence"] <= 1
    adapters = stage.store.get(stage.champion).adapters
    assert (first.adapter, second.adapter) == (adapters["L0"], adapters["L2"])
    assert first.pair == stage.champion and first.hcp == stage.store.get(stage.champion).hcp
    assert second.session == first.session == first.id and second.number == 1
    kept = rows(stage)
    assert set(kept) == {first.id, second.id}
    row = kept[second.id]
    assert [m["content"] for m in row.messages][::2] == ["Hello", "@coding please"]
    assert row.messages[-1]["content"] == second.answer and row.source == "served"
    assert sum(row.loss_mask) == second.usage["completion_tokens"] > 0
    assert len(row.token_ids) == len(row.logprobs) and row.timings_ms["turn"] >= 0


def test_what_was_not_delivered_never_was(stage: Stage) -> None:
    async def play() -> Any:
        service = await stage.service()
        first = await answer(service, ask("One"))
        lost = await service.begin(ask("Two", first.id))
        events = [event async for event in lost.events()]
        await lost.offer()
        await lost.withdraw()
        await lost.deliver()
        third = await answer(service, ask("Three", first.id))
        with pytest.raises(UnknownTurnError):
            await service.begin(ask("Four", lost.id))
        await service.close()
        return events, third

    events, third = run(play())
    assert isinstance(events[-1], Finished)
    text = stage.tokenizer.decode(list(third.token_ids))
    assert "One" in text and "Three" in text and "Two" not in text
    assert stage.counts.withdrawn == 1 and len(rows(stage)) == 2


def test_a_turn_that_is_broken_off_leaves_the_session_as_it_was(stage: Stage) -> None:
    async def play() -> Any:
        service = await stage.service()
        first = await answer(service, ask("One"))
        stage.engine.pause = 0.01
        broken = await service.begin(ask("Two", first.id))
        events = broken.events()
        await anext(events)
        await events.aclose()
        await broken.withdraw()
        stage.engine.pause = 0.0
        third = await answer(service, ask("Three", first.id))
        await service.close()
        return third

    third = run(play())
    assert "Two" not in stage.tokenizer.decode(list(third.token_ids))
    assert stage.counts.running == 0 and stage.counts.rebuilt == 0


def test_a_restarted_server_asks_for_the_same_tokens(stage: Stage) -> None:
    texts = ["One", "@coding two", "Three", "@agent four", "@coding five"]

    async def play(restart: bool) -> list[Any]:
        service = await stage.service()
        last, seen = None, []
        for text in texts:
            turn = await answer(service, ask(text, last))
            last = turn.id
            seen.append(turn.token_ids)
            if restart:
                await service.close()
                service = await stage.service()
        await service.close()
        return seen

    assert run(play(False)) == run(play(True))
    assert stage.counts.rebuilt >= 4


def test_others_are_told_a_summary_and_it_is_made_once(stage: Stage) -> None:
    def script(prompt: str, adapter: str | None) -> str:
        if "Sum up" in last_said(prompt):
            return "the sum"
        return "word " * 30 if last_said(prompt) == "Long" else "Yes."

    stage.engine.script = script

    async def play() -> Any:
        service = await stage.service()
        first = await answer(service, ask("Long"))
        second = await answer(service, ask("@coding go on", first.id))
        third = await answer(service, ask("Back", second.id))
        found = await service.get(first.id, "k1")
        await service.close()
        return first, second, third, found

    first, second, third, found = run(play())
    assert found.summary == "the sum" and found.usage["summary_tokens"] > 0
    others = stage.tokenizer.decode(list(second.token_ids))
    assert "the sum" in others and "word word" not in others
    own = stage.tokenizer.decode(list(third.token_ids))
    assert "word word" in own and third.token_ids[: len(first.token_ids)] == first.token_ids
    assert stage.counts.summaries == 1


def test_a_clients_result_goes_back_to_who_called(stage: Stage) -> None:
    def script(prompt: str, adapter: str | None) -> str:
        if "paid" in prompt:
            return "It is paid."
        return '<tool_call>\n{"name": "pay", "arguments": {"a": 1}}\n</tool_call>'

    stage.engine.script = script

    async def play() -> Any:
        service = await stage.service()
        asked = await answer(service, ask("@agent pay", tools=[PAY]))
        (call,) = asked.open_calls
        routed = len(stage.engine.asked)
        result: Any = [{"role": "tool", "content": "paid", "tool_call_id": call["id"]}]
        done = await answer(service, replace(ask("", asked.id, tools=[PAY]), messages=result))
        wrong: Any = [{"role": "tool", "content": "paid", "tool_call_id": "call_L1_x"}]
        with pytest.raises(ConfigError, match="open calls"):
            await service.begin(replace(ask("", asked.id), messages=wrong))
        # Without a session, the call's own name says who made it.
        said: Any = [
            {"role": "user", "content": "pay"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            *result,
        ]
        chat = await answer(
            service, replace(ask("", tools=[PAY]), kind="chat", messages=said, store=False)
        )
        await service.close()
        return asked, call, done, chat, routed

    asked, call, done, chat, _ = run(play())
    assert asked.stop_reason == "calls" and call["id"].startswith("call_L1_")
    for turn in (done, chat):
        assert (turn.specialist, turn.route["why"]) == ("L1", "tool_result")
        assert turn.answer == "It is paid." and turn.route["confidence"] is None
    assert len(rows(stage)) == 3


def test_a_call_can_be_demanded(stage: Stage) -> None:
    heard: list[str] = []

    def script(prompt: str, adapter: str | None) -> str:
        heard.append(prompt)
        return '{"a": 2}}\n</tool_call>'

    stage.engine.script = script

    async def play() -> Any:
        service = await stage.service()
        asked = await answer(service, ask("Hi", tools=[PAY], tool_choice="pay"))
        with pytest.raises(ConfigError, match="no tool is named"):
            await service.begin(ask("Hi", tools=[PAY], tool_choice="other"))
        await service.close()
        return asked

    asked = run(play())
    assert asked.open_calls[0]["function"] == {"name": "pay", "arguments": '{"a": 2}'}
    assert heard[0].endswith('{"name": "pay", "arguments":') or '"arguments": ' in heard[0][-20:]


def test_a_broken_router_leaves_the_turn_to_the_default(stage: Stage) -> None:
    async def play() -> Any:
        service = await stage.service()
        stage.engine.router_is_broken = True
        turn = await answer(service, ask("Hello"))
        await service.close()
        return turn

    turn = run(play())
    assert (turn.specialist, turn.route["why"]) == ("L2", "default")
    assert stage.counts.router_faults == 1


def test_a_new_champion_takes_new_sessions_and_running_ones_finish_on_theirs(
    stage: Stage, pairs: Any
) -> None:
    _, _, (old, new, newest) = pairs

    async def play() -> Any:
        service = await stage.service()
        deployment = service._deployment
        first = await answer(service, ask("One"))
        stage.engine.pause = 0.002
        running = await service.begin(ask("Two"))
        events = running.events()
        await anext(events)
        for champion in (new, newest):
            stage.champion = champion
            assert await deployment.look()
        assert not await deployment.look()
        fresh = await answer(service, ask("Three"))
        later = await answer(service, ask("Four", first.id))
        rest = [event async for event in events]
        await running.offer()
        await running.deliver()
        stage.champion = old
        assert await deployment.look()
        back = await answer(service, ask("Five"))
        stage.champion = "0123456789abcdef"
        assert not await deployment.look()
        same = await answer(service, ask("Six"))
        await service.close()
        return first, rest[-1].turn, fresh, later, back, same

    first, running, fresh, later, back, same = run(play())
    assert first.pair == running.pair == later.pair == old and fresh.pair == newest
    assert back.pair == same.pair == old
    assert (stage.counts.swaps, stage.counts.swap_faults) == (3, 1)
    assert later.answer.startswith(first.adapter[:6])
    # What nobody needs any more was unloaded.
    assert len(stage.engine.loaded) == 4 * 2


def test_nothing_delivered_is_lost_when_the_server_dies(stage: Stage) -> None:
    async def first_life() -> Any:
        service = await stage.service()
        kept = await answer(service, ask("One"))
        sent = await service.begin(ask("Two", kept.id))
        events = [event async for event in sent.events()]
        await sent.offer()
        # Here the last bytes go out, and the power goes.
        timeline = service._timeline
        await asyncio.sleep(0.2)
        timeline.release()  # type: ignore[attr-defined]
        return kept, events[-1].turn

    async def second_life(last: str) -> Any:
        service = await stage.service()
        third = await answer(service, ask("Three", last))
        await service.close()
        return third

    kept, sent = run(first_life())
    third = run(second_life(sent.id))
    text = stage.tokenizer.decode(list(third.token_ids))
    assert "One" in text and "Two" in text
    assert set(rows(stage)) == {kept.id, sent.id, third.id}
    assert rows(stage)[sent.id].messages[0]["content"] == "One"


def test_feedback_is_of_ones_own_turns(stage: Stage) -> None:
    async def play() -> Any:
        service = await stage.service()
        turn = await answer(service, ask("One"))
        await service.feedback(turn.id, "k1", Feedback(rating=1, correction="Better"))
        for id, key in ((turn.id, "k2"), ("resp_x", "k1")):
            with pytest.raises(UnknownTurnError):
                await service.feedback(id, key, Feedback(rating=1))
        with pytest.raises(UnknownTurnError):
            await service.begin(ask("Two", turn.id, key="k2"))
        await service.close()
        return turn

    turn = run(play())
    kept = rows(stage)[turn.id].feedback
    assert (kept.rating, kept.correction) == (1, "Better")


def test_each_choice_is_a_turn_of_its_own(stage: Stage) -> None:
    async def play() -> Any:
        service = await stage.service()
        opened = await service.begin(ask("One", n=3))
        events = [event async for event in opened.events()]
        await opened.offer()
        await opened.deliver()
        await service.close()
        return [event.turn for event in events if isinstance(event, Finished)]

    turns = run(play())
    assert len({turn.id for turn in turns}) == len({turn.seed for turn in turns}) == 3
    assert len(rows(stage)) == 3


def test_too_much_at_once_is_told_to_come_again(stage: Stage) -> None:
    async def play() -> None:
        service = await stage.service(running=1)
        opened = await service.begin(ask("One"))
        with pytest.raises(BusyError):
            await service.begin(ask("Two"))
        await opened.withdraw()
        await answer(service, ask("Three"))
        await service.close()

    run(play())


def test_a_turn_that_takes_too_long_fails_and_is_no_history(stage: Stage) -> None:
    stage.engine.pause = 0.5

    async def play() -> None:
        service = await stage.service()
        opened = await service.begin(ask("One"))
        limit = opened.placed.harness.hcp.session
        object.__setattr__(limit, "turn_s", 0.2)
        with pytest.raises(TurnError, match="longer than"):
            async for _ in opened.events():
                pass
        object.__setattr__(limit, "turn_s", 5.0)
        await opened.withdraw()
        await service.close()

    run(play())
    assert stage.counts.failed == 1 and not rows(stage)


def test_a_fifth_specialist_is_a_line_of_the_harness(pairs: Any, tmp_path: Path) -> None:
    tokenizer, store, _ = pairs
    more = (
        '\n[specialists.L4]\nname = "poet"\nsystem = "poet"\nmax_tokens = 32\ntemperature = 0.0\n'
    )
    pair = make_pair(store, tmp_path / "five", 0, more)
    stage = Stage(tmp_path, tokenizer, ScriptEngine(tokenizer), pair.id, store)

    async def play() -> Any:
        service = await stage.service()
        turn = await answer(service, ask("@poet a verse"))
        await service.close()
        return turn

    turn = run(play())
    assert (turn.specialist, turn.route["name"], turn.adapter) == ("L4", "poet", None)


def test_the_log_holds_nothing_secret(stage: Stage) -> None:
    async def play() -> None:
        service = await stage.service()
        await answer(service, ask("My mail is ada@example.org"))
        await service.close()

    run(play())
    logged = (stage.folder / "turns" / "current.log").read_bytes()
    assert b"ada@example.org" not in logged and parse_segment(logged).turns


def test_what_is_served_is_experience_that_a_cycle_takes(stage: Stage) -> None:
    """Answers, calls, results and another specialist's turns; none may end in quarantine."""

    def script(prompt: str, adapter: str | None) -> str:
        wants = "pay" in last_said(prompt) and "paid" not in prompt
        call = '<tool_call>\n{"name": "pay", "arguments": {"a": 1}}\n</tool_call>'
        return call if wants else "Yes."

    stage.engine.script = script

    async def play() -> None:
        service = await stage.service()
        first = await answer(service, ask("Hello", instructions="Be short."))
        asked = await answer(service, ask("@agent pay", first.id, tools=[PAY]))
        result: Any = [
            {"role": "tool", "content": "paid", "tool_call_id": asked.open_calls[0]["id"]}
        ]
        done = await answer(service, replace(ask("", asked.id, tools=[PAY]), messages=result))
        await service.feedback(done.id, "k1", Feedback(correction="It is paid."))
        await service.close()

    run(play())
    kept = rows(stage)
    found = validate(
        to_table(list(kept.values())),
        ExperienceGate(max_quarantined=0.0),
        hcp=stage.store.get(stage.champion).hcp,
        pair=stage.champion,
        out=stage.folder / "validation",
        suite=HOUSE / "contracts/experience.json",
    )
    assert found.good.num_rows == len(kept) == 3
    (corrected,) = select(found.good).examples
    assert corrected.answer == "It is paid." and corrected.specialist == "L1"
