"""A tiny world that pays for low token ids, so that a few steps of training show."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from macaron.learner.data import Example, SpecialistData
from macaron.profile import GrpoConfig
from tests.engines.conftest import bases, make_engine

__all__ = ["bases", "make_engine"]

STOP = 2
PROMPTS = [[5 + i, 6, 7, 3 * i % 11 + 1][: 2 + i % 3] for i in range(24)]


def low_tokens_pay(_: Sequence[int], responses: Sequence[Sequence[int]]) -> list[float | None]:
    """The share of tokens below 64."""
    return [sum(t < 64 for t in ids) / len(ids) for ids in responses]


def nothing_pays(_: Sequence[int], responses: Sequence[Sequence[int]]) -> list[float | None]:
    return [0.0] * len(responses)


def data(score: Any = low_tokens_pay, **more: Any) -> SpecialistData:
    return SpecialistData(PROMPTS, score, max_tokens=6, stop_ids=(STOP,), **more)


EXAMPLES = [Example([4, 5, i], [6, i, STOP]) for i in range(5)]
ROUTING = [Example([9, i], [20 + i, STOP]) for i in range(5)]


def config(**changes: Any) -> GrpoConfig:
    """Four quick steps."""
    values: dict[str, Any] = {
        "steps": 4,
        "prompts": 4,
        "group": 4,
        "lr": 2e-2,
        "warmup": 1,
        "final_lr": 0.5,
        "clip": 0.2,
        "temperature": 1.0,
        "max_grad_norm": 1.0,
        "routing_batch": 0,
        "experience_batch": 0,
        "experience_weight": 0.5,
        "checkpoint_every": 2,
    }
    return GrpoConfig(**{**values, **changes})


def state(engine: Any, adapter: str) -> bytes:
    """An adapter's bits."""
    from macaron.engines.adapters import adapter_state

    values = adapter_state(engine.model, adapter)
    return b"".join(values[name].numpy().tobytes() for name in sorted(values))


@pytest.fixture
def train(make_engine: Callable[..., Any]) -> Callable[..., Any]:
    """Trains adapter "one" of a fresh engine: (engine, summary, metrics of the steps)."""

    def run(
        given: SpecialistData | None = None,
        settings: GrpoConfig | None = None,
        engine: Any = None,
        seed: int = 1,
        specialist: str = "L0",
        on_step: Any = None,
        **more: Any,
    ) -> tuple[Any, Any, list[dict[str, Any]]]:
        from macaron.learner.trainer import train_specialist

        engine = engine or make_engine()
        steps: list[dict[str, Any]] = []

        def hook(metrics: dict[str, Any]) -> None:
            steps.append(metrics)
            if on_step:
                on_step(metrics)

        summary = train_specialist(
            engine,
            "one",
            given or data(),
            settings or config(),
            specialist=specialist,
            seed=seed,
            on_step=hook,
            **more,
        )
        return engine, summary, steps

    return run
