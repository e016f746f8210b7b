"""Which split a phrase combination, an entity and a whole prompt belong to.

Each belongs to exactly one split for ever: membership is a hash of the thing itself, so that
no prompt that training could draw can be drawn as sealed, whatever the seeds.
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from macaron.environments.base import Split
from macaron.errors import ConfigError
from macaron.messages import Message

Parts = tuple[str | int, ...]
"""A phrase combination: which wording was taken in each place."""

Content = tuple[tuple[Message, ...], str, dict[str, Any]]
"""Messages, reference and data of a task."""


def _bucket(text: str, buckets: int) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % buckets


@cache
def entity_split(entity: str) -> Split:
    """One name or number in five is sealed."""
    return "sealed" if _bucket(f"entity {entity}", 5) == 0 else "train"


@cache
def phrase_split(family: str, parts: Parts) -> Split:
    """One phrase combination in four is sealed; every single phrase is in both."""
    return "sealed" if _bucket(f"phrase {family} {parts}", 4) == 0 else "train"


def text_split(messages: Sequence[Message]) -> Split:
    """One prompt text in four is sealed: the guard against short prompts that coincide."""
    text = "\n".join(f"{m['role']} {m['content']}" for m in messages)
    return "sealed" if _bucket(f"text {text}", 4) == 0 else "train"


def draw(
    split: Split,
    family: str,
    phrases: Callable[[], Parts],
    build: Callable[[Parts], Content],
) -> Content:
    """A task's content whose phrase combination and full text both belong to the split.

    Args:
        split: the split to stay within.
        family: name of the environment.
        phrases: draws a phrase combination.
        build: makes the content from it, with entities of the split.

    Raises:
        ConfigError: none was found in 10,000 draws; the environment has too few texts.
    """
    for _ in range(10_000):
        parts = phrases()
        if phrase_split(family, parts) != split:
            continue
        content = build(parts)
        if text_split(content[0]) == split:
            return content
    raise ConfigError(
        f"no {split} prompt in 10,000 draws", where=family, mend="give it more phrases or entities"
    )


def pick(rng: random.Random, mix: dict[str, float], kind: str | None) -> str:
    """The kind asked for, or one drawn by the mix's weights.

    Raises:
        ConfigError: the environment has no such kind.
    """
    if kind is None:
        return rng.choices(tuple(mix), tuple(mix.values()))[0]
    if kind not in mix:
        raise ConfigError(f"no kind {kind!r}", mend=f"there are {', '.join(mix)}")
    return kind


def user(text: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": text}
