"""Training: it learns, it moves what it should and nothing else, and it stops at a fault."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from macaron.engines.adapters import parameters_of
from macaron.engines.local import LocalEngine, load_local
from macaron.errors import NothingTrainedError, TrainingError
from macaron.learner import guards
from macaron.learner.data import SpecialistData
from tests.engines.conftest import ARCHITECTURES
from tests.learner.conftest import (
    EXAMPLES,
    ROUTING,
    config,
    data,
    low_tokens_pay,
    nothing_pays,
    state,
)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_reward_rises(
    train: Callable[..., Any], make_engine: Callable[..., Any], architecture: str
) -> None:
    settings = config(steps=12, prompts=8, group=8, lr=3e-2)
    _, summary, steps = train(settings=settings, engine=make_engine(architecture))
    assert summary.last_reward > summary.first_reward + 0.08
    assert [m["step"] for m in steps] == list(range(1, 13))
    assert summary.trained_tokens == sum(m["trained_tokens"] for m in steps) > 0
    assert summary.first_reward == steps[0]["reward"]


def test_a_bfloat16_base_is_trained_in_bfloat16(train: Any, bases: dict[str, Path]) -> None:
    engine = load_local(bases["qwen3"], {}, dtype="bfloat16")
    engine.create("one", rank=4, alpha=8, seed=0)
    assert engine.causal.dtype == torch.bfloat16
    _, summary, steps = train(engine=engine)
    assert summary.trained_tokens > 0
    assert all(m["logprob_gap"] < 0.1 for m in steps)


def test_only_the_trained_adapter_moves(train: Callable[..., Any], make_engine: Any) -> None:
    engine = make_engine()
    engine.set_active("two")
    before = {n: p.detach().clone() for n, p in engine.model.named_parameters()}
    train(engine=engine)
    own = set(parameters_of(engine.model, "one"))
    for name, parameter in engine.model.named_parameters():
        assert torch.equal(parameter, before[name]) == (name not in own), name
        assert not parameter.requires_grad


def test_another_parameter_that_moved_is_a_fault(train: Any, make_engine: Any) -> None:
    engine = make_engine()

    def move_the_other(_: dict[str, Any]) -> None:
        with torch.no_grad():
            next(iter(parameters_of(engine.model, "two").values())).add_(1e-3)

    with pytest.raises(TrainingError, match="another adapter or of the base moved"):
        train(engine=engine, on_step=move_the_other)


def test_equal_rewards_move_nothing_at_all(train: Callable[..., Any], make_engine: Any) -> None:
    """Not even through the optimizer's momentum: reward is paid in the first step only."""
    engine = make_engine()
    states: list[bytes] = []
    calls: list[int] = []

    def score(places: Sequence[int], found: Sequence[Sequence[int]]) -> list[float | None]:
        calls.append(len(places))
        return low_tokens_pay(places, found) if len(calls) == 1 else nothing_pays(places, found)

    _, summary, steps = train(
        data(score), engine=engine, on_step=lambda _: states.append(state(engine, "one"))
    )
    assert steps[0]["trained_tokens"] > 0
    assert [m["trained_tokens"] for m in steps[1:]] == [0, 0, 0]
    assert [m["skipped_groups"] for m in steps[1:]] == [4, 4, 4]
    assert states[0] == states[-1]
    assert summary.skipped_groups == 12


def test_a_run_that_trains_on_nothing_is_a_fault(train: Any, make_engine: Any) -> None:
    engine = make_engine()
    before = state(engine, "one")
    with pytest.raises(NothingTrainedError, match="no token was trained on"):
        train(data(nothing_pays), engine=engine)
    assert state(engine, "one") == before


def test_examples_alone_train(train: Callable[..., Any], make_engine: Any) -> None:
    engine = make_engine()
    before = engine.rank([e.prompt_ids for e in EXAMPLES], [EXAMPLES[0].response_ids], "one")
    settings = config(experience_batch=4)
    _, summary, _ = train(data(nothing_pays, examples=EXAMPLES), settings, engine)
    after = engine.rank([e.prompt_ids for e in EXAMPLES], [EXAMPLES[0].response_ids], "one")
    assert summary.trained_tokens == 0
    assert summary.example_tokens == 4 * 4 * 3
    assert after[0][0] > before[0][0]


def test_routing_is_learned_beside_the_policy(train: Callable[..., Any], make_engine: Any) -> None:
    engine = make_engine()
    labels = [e.response_ids for e in ROUTING]
    before = engine.rank([ROUTING[0].prompt_ids], labels, "one")[0]
    settings = config(steps=8, routing_batch=8)
    _, summary, _ = train(data(routing=ROUTING), settings, engine)
    assert summary.routing_tokens == 8 * 8 * 2
    assert engine.rank([ROUTING[0].prompt_ids], labels, "one")[0][0] > before[0] + 1


def test_other_experience_gives_another_adapter(train: Callable[..., Any]) -> None:
    settings = config(experience_batch=4)
    found = [
        state(train(data(examples=examples), settings)[0], "one")
        for examples in ((), EXAMPLES, EXAMPLES[:3], EXAMPLES)
    ]
    assert found[1] == found[3]
    assert len(set(found)) == 3


def test_an_invalid_reward_is_masked_and_counted(train: Callable[..., Any]) -> None:
    def scorer(first: float | None) -> Callable[..., Any]:
        def score(places: Sequence[int], found: Sequence[Sequence[int]]) -> list[float | None]:
            return [first, *low_tokens_pay(places, found)[1:]]

        return score

    engine, summary, steps = train(data(scorer(None)))
    invalid = state(engine, "one")
    assert summary.invalid_rewards == sum(m["invalid"] for m in steps) == 4
    assert invalid != state(train(data(scorer(0.0)))[0], "one")


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_stops(train: Any, make_engine: Any, reward: float) -> None:
    engine = make_engine()
    before = state(engine, "one")
    with pytest.raises(TrainingError, match=r"L0, step 1: a reward is not finite.*0, 1, 2, 3"):
        train(data(lambda places, _: [reward] * len(places)), engine=engine)
    assert state(engine, "one") == before


def test_a_missing_reward_stops(train: Callable[..., Any]) -> None:
    with pytest.raises(TrainingError, match="15 rewards for 16 responses"):
        train(data(lambda places, _: [0.0] * (len(places) - 1)))


def test_weights_that_are_no_numbers_stop_before_the_optimizer(
    train: Any, make_engine: Any
) -> None:
    engine = make_engine()
    broken: list[bytes] = []

    def poison(metrics: dict[str, Any]) -> None:
        if metrics["step"] == 2:
            with torch.no_grad():
                next(iter(parameters_of(engine.model, "one").values()))[0, 0] = math.nan
            broken.append(state(engine, "one"))

    with pytest.raises(TrainingError, match=r"L0, step 3: .* is not finite.*8, 9, 10, 11"):
        train(engine=engine, on_step=poison)
    assert state(engine, "one") == broken[0]


def test_a_gradient_that_is_no_number_stops(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = torch.autograd.grad

    def infinite(*given: Any, **more: Any) -> tuple[torch.Tensor, ...]:
        first, *rest = found(*given, **more)
        return (first * math.inf, *rest)

    monkeypatch.setattr("macaron.learner.step.torch.autograd.grad", infinite)
    monkeypatch.setattr("macaron.learner.trainer.best_layout", lambda *_: _plain())
    with pytest.raises(TrainingError, match=r"L0, step 1: a gradient is not finite; batch: task 0"):
        train()


def _plain() -> Any:
    from macaron.learner.layout import PlainLayout

    return PlainLayout()


def test_an_exploding_learning_rate_stops_or_stays_finite(train: Any, make_engine: Any) -> None:
    engine = make_engine()
    with pytest.raises(TrainingError, match=r"L0.* is not finite"):
        train(settings=config(steps=8, lr=1e30, warmup=0), engine=engine)


class Liar(LocalEngine):
    """Samples with one policy and reports another."""

    def sample(self, *given: Any, **more: Any) -> Any:
        found = super().sample(*given, **more)
        for c in (c for row in found for c in row):
            c.logprobs[0] -= 0.05
        return found


def test_sampler_and_learner_must_agree(train: Callable[..., Any], make_engine: Any) -> None:
    honest = make_engine()
    _, _, steps = train(engine=honest)
    assert all(0 <= m["logprob_gap"] < 1e-4 for m in steps)
    liar = Liar(honest.model, honest.pad_id, honest.batch)
    with pytest.raises(TrainingError, match=r"step 1: sampler and learner differ by 0\.05"):
        train(engine=liar)
    assert guards.GAP_LIMIT[torch.float32] == 1e-2


def test_metrics_are_json(train: Callable[..., Any]) -> None:
    import json

    _, _, steps = train()
    names = {"step", "steps", "reward", "loss", "grad_norm", "lr", "trained_tokens"}
    names |= {"example_tokens", "routing_tokens", "skipped_groups", "invalid", "logprob_gap"}
    names |= {"sample_seconds", "score_seconds", "update_seconds"}
    assert all(set(m) == names for m in steps)
    assert json.loads(json.dumps(steps, allow_nan=False)) == steps


def test_no_prompts_is_a_fault(train: Callable[..., Any]) -> None:
    with pytest.raises(TrainingError, match="no prompts"):
        train(SpecialistData([], low_tokens_pay))


CHANGES: list[dict[str, Any]] = [
    {"steps": 5},
    {"prompts": 3},
    {"group": 3},
    {"lr": 1e-2},
    {"warmup": 3},
    {"final_lr": 0.1},
    {"temperature": 0.8},
    {"max_grad_norm": 1e-3},
    {"epochs": 2},
    {"routing_batch": 3},
    {"experience_batch": 3},
    {"experience_weight": 0.1},
]


@pytest.fixture(scope="module")
def unchanged() -> dict[str, bytes]:
    return {}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_every_setting_changes_the_adapter(
    train: Callable[..., Any], unchanged: dict[str, bytes], change: dict[str, Any]
) -> None:
    given = data(examples=EXAMPLES, routing=ROUTING)
    settings = {"routing_batch": 2, "experience_batch": 2}
    if not unchanged:
        unchanged["state"] = state(train(given, config(**settings))[0], "one")
    assert state(train(given, config(**{**settings, **change}))[0], "one") != unchanged["state"]


def test_the_clip_holds_where_rollouts_are_used_twice(train: Callable[..., Any]) -> None:
    found = [
        state(train(settings=config(epochs=3, clip=clip, lr=0.1))[0], "one") for clip in (0.05, 0.5)
    ]
    assert found[0] != found[1]


def test_the_seed_and_the_specialist_decide_the_samples(train: Callable[..., Any]) -> None:
    same = [state(train(seed=seed)[0], "one") for seed in (1, 1, 2)]
    assert same[0] == same[1] != same[2]


def test_pass_tokens_bound_a_pass(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from macaron.learner import step

    sizes: dict[int, int] = {}
    whole = step.split
    for tokens in (1, 10_000):

        def counted(trees: Any, limit: int, tokens: int = tokens) -> Any:
            parts = list(whole(trees, limit))
            sizes[tokens] = max(sizes.get(tokens, 0), len(parts))
            return iter(parts)

        monkeypatch.setattr(step, "split", counted)
        train(settings=config(pass_tokens=tokens))
    assert sizes == {1: 4, 10_000: 1}
