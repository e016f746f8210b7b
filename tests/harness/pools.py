"""Pools in tests: three tools that have references, a policy, and right sources for them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.harness.pool.bench import candidate
from macaron.harness.pool.live import LivePool, Origin
from macaron.harness.pool.references import Purpose, References, Several, Solved
from macaron.harness.pool.trials import Examiner
from macaron.harness.sandbox import Sandbox
from macaron.pool.candidate import Candidate

TOTAL = "def order_total(lines):\n    return sum(price * count for price, count in lines)\n"
LONGEST = "def longest_word(words):\n    return max(words, key=len, default='')\n"
INSIDE = "def inside(x, low, high):\n    return low <= x <= high\n"
WRONG = "def order_total(lines):\n    return len(lines)\n"
WORDS = ("pear", "fig", "apricot", "quince", "plum", "medlar", "damson", "greengage")


@dataclass(frozen=True)
class Rules:
    """The HCP's rules, as small numbers."""

    trials: int = 3
    passes: int = 3
    demote_after: int = 1
    demote_sessions: int = 2
    retrial_uses: int = 4


def schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _lines(rng: random.Random) -> dict[str, Any]:
    return {"lines": [[rng.randint(1, 99), rng.randint(0, 9)] for _ in range(rng.randrange(6))]}


def _words(rng: random.Random) -> dict[str, Any]:
    return {"words": rng.sample(WORDS, rng.randrange(1, 6))}


def _range(rng: random.Random) -> dict[str, Any]:
    low = rng.randint(-20, 20)
    high = low + rng.randrange(12)
    return {"x": rng.choice([low - 1, low, low + 1, high, high + 1]), "low": low, "high": high}


ARRAY, INTEGER = {"type": "array"}, {"type": "integer"}
TASKS = (
    Solved(
        Purpose("order_total", "The sum of price times count.", schema(lines=ARRAY)),
        _lines,
        lambda lines: sum(price * count for price, count in lines),
    ),
    Solved(
        Purpose("longest_word", "The longest word, the first of several.", schema(words=ARRAY)),
        _words,
        lambda words: max(words, key=len, default=""),
    ),
    Solved(
        Purpose(
            "inside",
            "Whether x lies in the range, its ends included.",
            schema(x=INTEGER, low=INTEGER, high=INTEGER),
        ),
        _range,
        lambda x, low, high: low <= x <= high,
    ),
)
REFERENCES = Several(TASKS)
PURPOSES = {purpose.name: purpose for purpose in REFERENCES.purposes()}


def tool(source: str) -> Candidate:
    """The candidate of a source, as a model would save it."""
    return candidate(source, purposes=PURPOSES)


def examiner(sandbox: Sandbox, seed: int = 0, references: References = REFERENCES) -> Examiner:
    return Examiner(references, sandbox, seed)


def live(folder: Path, *pairs: str, inherited: Path | None = None) -> LivePool:
    """A pool of pair `p0`, or of the pairs given."""
    return LivePool(folder / "pool", inherited, pairs or ("p0",))


def session(name: str = "s1") -> Origin:
    return Origin(name, "task-1")
