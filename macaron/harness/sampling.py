"""How a response is sampled: the HCP's say, a training's temperature, and the caller's wishes."""

from typing import TypeVar

from macaron.engines.base import SampleParams
from macaron.engines.randomness import derive
from macaron.harness.stopping import stop_ids
from macaron.harness.turn import OpenTurn

Value = TypeVar("Value")


def params_of(turn: OpenTurn, session: int, temperature: float | None, room: int) -> SampleParams:
    """The parameters of the turn's next response.

    Args:
        turn: open.
        session: the session's seed.
        temperature: in place of all others, for training; then every token can be drawn.
        room: tokens that the context has left.
    """
    config, wishes = turn.view.config, turn.wishes
    served = either(wishes.temperature, config.temperature)
    return SampleParams(
        max_tokens=min(config.max_tokens, room, either(wishes.max_tokens, room)),
        temperature=either(temperature, served),
        seed=derive(either(wishes.seed, session), turn.number, turn.rounds),
        stop_ids=stop_ids(turn.view.template, turn.stops),
        top_p=either(wishes.top_p, config.top_p) if temperature is None else 1.0,
    )


def either(wish: Value | None, otherwise: Value) -> Value:
    """The wish, where there is one."""
    return otherwise if wish is None else wish
