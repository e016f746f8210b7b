"""The names and numbers that tasks are about; one in five is kept for sealed tasks only.

A name is two of 44 syllables, capitalised, so that a small tokenizer spells any of the 1,936
names with two tokens. Without `e`, hardly a name is an English word.
"""

import itertools
from functools import cache

from macaron.environments.base import Split
from macaron.environments.splits import entity_split

SYLLABLES = tuple(c + v for c in "bdfklmnrstv" for v in "aiou")
"""The 44 syllables; a name's first one is capitalised."""

NAMES = tuple(a.capitalize() + b for a, b in itertools.product(SYLLABLES, repeat=2))

_LOWER_NAMES = frozenset(name.lower() for name in NAMES)


@cache
def names(split: Split) -> tuple[str, ...]:
    """The names that the split may use."""
    return tuple(name for name in NAMES if entity_split(name) == split)


@cache
def numbers(split: Split, low: int, high: int) -> tuple[int, ...]:
    """The whole numbers in [low, high] that the split may use."""
    return tuple(n for n in range(low, high + 1) if entity_split(str(n)) == split)


def is_name(word: str) -> bool:
    """Whether the word is a name, in whatever case."""
    return word.lower() in _LOWER_NAMES
