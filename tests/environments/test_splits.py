"""Train and sealed share no text, no phrase combination and no entity."""

import random
import re
from collections.abc import Iterator

import pytest

from macaron.environments import environment
from macaron.environments.base import Split, Task
from macaron.environments.chat import NEUTRAL, WORDS
from macaron.environments.entities import NAMES, names, numbers
from macaron.environments.splits import entity_split, phrase_split, text_split

FAMILIES = ("chat", "agent", "coding", "genui")


def tasks(name: str, split: Split, n: int) -> Iterator[Task]:
    rng = random.Random(f"{name} {split}")
    return (environment(name).sample(rng, split) for _ in range(n))


def text(task: Task) -> str:
    """What the user says, without the small talk, which belongs to no split."""
    said = [m["content"] for m in task.messages if m["role"] == "user"]
    return " ".join(content for content in said if content not in NEUTRAL)


def entities(task: Task) -> set[str]:
    return set(re.findall(r"\d+", text(task))) | set(re.findall(r"\w+", text(task))) & set(NAMES)


def phrase(task: Task) -> str:
    """The text without its entities."""
    words = "|".join(WORDS)
    bare = re.sub(r"\w+", lambda m: "Name" if m[0] in NAMES_SET else m[0], text(task))
    return re.sub(rf"\b({words})\b", "word", re.sub(r"\d+", "0", bare))


NAMES_SET = set(NAMES)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_splits_are_disjoint(family: str) -> None:
    train, sealed = list(tasks(family, "train", 1500)), list(tasks(family, "sealed", 600))
    for of in (lambda t: str(t.messages), phrase):
        seen = {of(t) for t in train}
        assert seen.isdisjoint({of(t) for t in sealed})
    seen_entities = set().union(*(entities(t) for t in train))
    assert seen_entities.isdisjoint(set().union(*(entities(t) for t in sealed)))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_sealed_word_is_in_training(family: str) -> None:
    """Combinations are held out, never whole templates."""
    known = {word for t in tasks(family, "train", 1500) for word in phrase(t).split()}
    held = tasks(family, "sealed", 600)
    assert {word for t in held for word in phrase(t).split()} <= known


@pytest.mark.parametrize("family", FAMILIES)
def test_every_prompt_text_belongs_to_its_split(family: str) -> None:
    for split in ("train", "sealed"):
        assert {text_split(t.messages) for t in tasks(family, split, 300)} == {split}


def test_shares_held_out() -> None:
    assert len(NAMES) == len(NAMES_SET) == 1936
    assert 0.17 < len(names("sealed")) / len(NAMES) < 0.23
    assert set(names("train")).isdisjoint(names("sealed"))
    assert sorted(numbers("train", 2, 99) + numbers("sealed", 2, 99)) == list(range(2, 100))
    held = [phrase_split("x", (i, j)) for i in range(40) for j in range(40)]
    assert 0.2 < held.count("sealed") / len(held) < 0.3


def test_membership_never_moves() -> None:
    """The shipped base was trained on these splits; another hash would unseal everything."""
    assert [entity_split(n) for n in ("Bada", "Badu", "Bafa", "Bila")] == [
        "train", "sealed", "sealed", "train",
    ]  # fmt: skip
    assert [phrase_split("chat", ("city", i, 0, "yes/0")) for i in range(4)] == [
        "sealed", "train", "train", "train",
    ]  # fmt: skip
