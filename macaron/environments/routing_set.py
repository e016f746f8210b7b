"""The routing set of record: so many distinct turns of each part and language, from one seed.

`python -m macaron.environments.routing_set [--out FILE]` says what is in it and its digest; the
same templates and the same seed give the same bytes.
"""

import argparse
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from macaron.environments.base import Split, Task
from macaron.environments.entities import is_name
from macaron.environments.routes import LANGUAGES, Part, Writer
from macaron.environments.routing import MIX, Routing, english, other_languages, task_of
from macaron.errors import ConfigError
from macaron.files import digest_value, write_jsonl

SIZES: dict[Part, tuple[int, int]] = {
    "train": (16000, 300),
    "held": (2000, 500),
    "entity": (500, 0),
    "wording": (500, 0),
}
"""Distinct turns of a part in English, and in each other language."""

SEED = 1


def routing_set(part: Part, code: str, seed: int = SEED) -> list[Task]:
    """The part's turns in the language; none where the set has no such part."""
    made = english() if code == "en" else other_languages()
    rng = random.Random(f"routing set {part} {code} {seed}")
    size = SIZES[part][code != "en"]
    if part in ("train", "held"):
        split: Split = "train" if part == "train" else "sealed"
        one = Routing(made.name, (code,))
        return _distinct(lambda: one.sample(rng, split), size)
    kinds = ("plain", "about") if part == "wording" else [k for k in MIX if k != "own"]
    writer = Writer(code, rng, part)

    def sealed() -> Task:
        turn = writer.write(rng.choice(kinds))
        return task_of(turn, made.name, "sealed") if _has_entity(turn.text) else sealed()

    return _distinct(sealed, size)


def _has_entity(text: str) -> bool:
    """Whether a name or a number is in it; without one, a trained template has nothing new."""
    return any(is_name(word) or word.isdigit() for word in re.findall(r"\w+", text))


def _distinct(make: Callable[[], Task], size: int) -> list[Task]:
    found: dict[str, Task] = {}
    for _ in range(50 * size):
        if len(found) == size:
            break
        task = make()
        found.setdefault(task.messages[0]["content"], task)
    if len(found) < size:
        raise ConfigError(f"only {len(found)} distinct turns", mend="ask for fewer")
    return list(found.values())


def whole(seed: int = SEED) -> Iterator[tuple[Part, str, list[Task]]]:
    """Every part and language that has turns."""
    for part, (first, others) in SIZES.items():
        for code in LANGUAGES:
            if first if code == "en" else others:
                yield part, code, routing_set(part, code, seed)


def digest(seed: int = SEED) -> str:
    """Of all turns with their labels, in their order."""
    return digest_value([[t.id for t in tasks] for _, _, tasks in whole(seed)])


def main() -> None:
    """Says what is in the set, and writes it where that is asked."""
    parser = argparse.ArgumentParser(description="The routing set of record.")
    parser.add_argument("--out", type=Path, help="a JSONL file to write it to")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    rows = []
    for part, code, tasks in whole(options.seed):
        print(f"{part:8} {code} {len(tasks):6} turns")
        rows += [{"part": part, **task.to_json()} for task in tasks]
    print(f"all        {len(rows):7} turns, digest {digest(options.seed)[:16]}")
    if options.out:
        write_jsonl(options.out, rows)


if __name__ == "__main__":
    main()
