"""The landing proof: log-probabilities that the loading side must find again.

An adapter that was lost, mistaken for its parent or loaded onto another base cannot agree with
its probe.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from macaron.engines.base import Engine
from macaron.errors import TrainingError
from macaron.files import write_json
from macaron.profile import Section, invalid

AGREEMENT = 1e-4
"""Most that the two sides may differ, nats a token."""
MOVEMENT = 1e-6
"""Less than this is rounding, nats a token: a training of a few tiny steps may move no more."""
COUNT = 4
TOKENS = 8
"""Probed prompts, and most tokens of each answer."""


Texts = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""(prompt, answer) as token ids."""


class Probe(Section):
    """Answers to prompts, and how likely they are before and after a training."""

    revision: str = Field(description="the trained adapter")
    parent: str = Field(description="the adapter it started from")
    texts: Texts = Field(min_length=1, description="prompts and answers, token ids")
    trained: tuple[float, ...] = Field(description="log p(answer | prompt), nats a token")
    before: tuple[float, ...] = Field(description="the same under the parent")


def choose(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Texts:
    """The first few prompts with the starts of their answers."""
    pairs = zip(prompts[:COUNT], answers[:COUNT], strict=True)
    return tuple((tuple(prompt), tuple(answer[:TOKENS])) for prompt, answer in pairs)


def measure(engine: Engine, adapter: str, texts: Texts) -> tuple[float, ...]:
    """log p(answer | prompt) under the adapter, nats a token, of each text."""
    return tuple(
        engine.rank([prompt], [answer], adapter)[0][0] / len(answer) for prompt, answer in texts
    )


def write_probe(probe: Probe, path: Path) -> Path:
    """The probe as a JSON file."""
    return write_json(path, probe.model_dump(mode="json"))


def load_probe(path: Path) -> Probe:
    """The probe in a JSON file.

    Raises:
        TrainingError: there is none, so that nothing proves the landing.
        ConfigError: the file is no probe.
    """
    if not path.exists():
        raise TrainingError("no probe was written", where=str(path), mend="train again")
    try:
        return Probe.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise invalid(path, error) from error


def check_probe(engine: Engine, adapter: str, probe: Probe) -> None:
    """Recomputes the probe where the adapter was loaded.

    Raises:
        TrainingError: it is another adapter than the probe's, the two sides disagree, or nothing
            moved from the parent.
    """
    if adapter != probe.revision:
        raise TrainingError(
            f"the probe is of adapter {probe.revision[:12]}", where=f"adapter {adapter[:12]}"
        )
    compare(probe, measure(engine, adapter, probe.texts))


def compare(probe: Probe, found: Sequence[float]) -> None:
    """Raises TrainingError unless `found` is what was trained and not what was before."""
    where = f"adapter {probe.revision[:12]}"
    for measured, trained in zip(found, probe.trained, strict=True):
        # Negated, since a NaN compares false with everything.
        if not abs(measured - trained) <= AGREEMENT:
            raise TrainingError(
                f"answers at {measured:.6f} nats a token, was trained to {trained:.6f}", where=where
            )
    if _moved(probe.trained, probe.before) and not _moved(found, probe.before):
        raise TrainingError("answers as its parent does: training did not land", where=where)


def _moved(now: Sequence[float], before: Sequence[float]) -> bool:
    return any(abs(n - b) > MOVEMENT for n, b in zip(now, before, strict=True))
