"""Training on whole episodes: what the policy sampled is learned, and nothing in between."""

import random
from dataclasses import replace
from typing import Any

import pytest

from macaron.engines.local import LocalEngine, load_local
from macaron.environments import environment, worlds
from macaron.environments.base import Task
from macaron.hcp.document import HCP, load_hcp
from macaron.learner.data import SpecialistData
from macaron.learner.trainer import train_specialist
from macaron.mint.player import needs_episodes, player, training_runtime
from macaron.profile import load_profile
from tests.project import HOUSE

BASE = HOUSE / "models/nano"
SECOND = "Say it again."


def harness(**changes: Any) -> HCP:
    hcp = load_hcp(HOUSE / "contracts/hcp/nano.toml").model_dump(mode="json")
    return HCP.model_validate(hcp | changes)


def asking_twice() -> HCP:
    """A harness that sends every first answer back: two samplings a turn."""
    hook = {
        "name": "again",
        "when": "before_stop",
        "pattern": "^never$",
        "negate": True,
        "action": "continue",
        "text": SECOND,
    }
    return harness(hooks=[hook])


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    rng = random.Random("player")
    return [environment("chat").sample(rng, "train") for _ in range(8)]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(BASE)


@pytest.fixture
def engine() -> LocalEngine:
    made = load_local(BASE, {})
    made.create("L0", rank=8, alpha=16, seed=0)
    return made


def test_episodes_are_played_where_a_harness_or_a_world_has_a_say(tasks: list[Task]) -> None:
    order = worlds()["orders"].sample(random.Random(0), "train")
    assert not needs_episodes(harness(), "L0", tasks)
    assert needs_episodes(asking_twice(), "L0", tasks)
    assert needs_episodes(harness(), "L1", [order])


def test_a_group_is_one_prompt_and_what_was_sampled_after_it(
    tasks: list[Task], tokenizer: Any, engine: LocalEngine
) -> None:
    runtime = training_runtime(engine, tokenizer, asking_twice(), "L0", BASE)
    play = player(runtime, tasks, 1.0)
    groups = play([2, 5], 3, 9)
    assert [group.rewards for group in groups] == [list(g.rewards) for g in play([2, 5], 3, 9)]
    for index, group in zip((2, 5), groups, strict=True):
        text = tokenizer.decode(group.prompt_ids)
        assert tasks[index].messages[-1]["content"] in text
        for response in group.responses:
            given = [t for t, s in zip(response.token_ids, response.sampled, strict=True) if not s]
            assert SECOND in tokenizer.decode(given)
            assert response.sampled[0] and response.sampled[-1]
            assert len(response.logprobs) == len(response.token_ids)


@pytest.mark.full
def test_the_learner_agrees_with_what_was_sampled_in_every_round(
    tasks: list[Task], tokenizer: Any, engine: LocalEngine
) -> None:
    runtime = training_runtime(engine, tokenizer, asking_twice(), "L0", BASE)
    counted: list[int] = []

    def play(indices: Any, n: int, seed: int) -> Any:
        groups = player(runtime, tasks, 1.0)(indices, n, seed)
        counted.append(sum(len(r.token_ids) for g in groups for r in g.responses))
        # Rewards that differ within a group; an answer given twice is seldom right.
        return [replace(g, rewards=[len(r.token_ids) % 2 for r in g.responses]) for g in groups]

    data = SpecialistData(prompts=[[1]] * len(tasks), score=_never, play=play)
    grpo = load_profile(HOUSE / "models/profiles/nano.toml").grpo.model_copy(
        update={"steps": 2, "prompts": 4, "group": 8, "warmup": 0, "routing_batch": 0}
    )
    steps: list[dict[str, Any]] = []
    train_specialist(engine, "L0", data, grpo, specialist="L0", seed=3, on_step=steps.append)
    assert all(0 < step["logprob_gap"] < 1e-4 for step in steps)
    assert all(0 < s["trained_tokens"] < c for s, c in zip(steps, counted, strict=True))


def _never(*_: Any) -> list[float | None]:
    raise AssertionError("episodes bring their rewards")
