"""Cheap attacks on verifiers: answers that know nothing of the task, made from data and its prompt.

None of them holds an answer that its maker had to know: an attack that passes is the verifier's
fault.
"""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from macaron.environments.base import Task
from macaron.files import digest_value

FILE = "attacks.toml"


@dataclass(frozen=True)
class Attack:
    """One answer, or one command, and what it is called."""

    name: str
    text: str


@cache
def _document() -> dict[str, tuple[Attack, ...]]:
    text = (files(__package__) / FILE).read_text(encoding="utf-8")
    return {
        kind: tuple(Attack(a["name"], a["text"] * a.get("repeat", 1)) for a in found)
        for kind, found in tomllib.loads(text).items()
    }


def constants() -> Sequence[Attack]:
    """The answers that are the same for every task."""
    return _document()["attack"]


def commands() -> Sequence[Attack]:
    """Commands for worlds that have a shell."""
    return _document()["shell"]


def digest() -> str:
    """Of all attacks that are data; those made here change with this file."""
    document = {kind: [[a.name, a.text] for a in found] for kind, found in _document().items()}
    return digest_value(document)


def answers(task: Task, others: Sequence[Task]) -> Iterator[Attack]:
    """Every attack on a task's verifier by an answer alone.

    Args:
        task: the attacked one.
        others: of the same environment, whose references are known to the attacker.
    """
    yield from constants()
    yield from _copies(task)
    strange = list(dict.fromkeys(t.reference for t in others if t.reference))
    strange = [text for text in strange if text.strip() != task.reference.strip()]
    yield from (Attack("another task's reference", text) for text in strange[:2])
    yield from _hedges(task, strange)


def _copies(task: Task) -> Iterator[Attack]:
    last = task.messages[-1]["content"]
    whole = "\n".join(message["content"] for message in task.messages)
    yield Attack("the last message copied", last)
    yield Attack("the whole prompt copied", whole)
    yield Attack("the prompt repeated", f"{whole}\n" * 20)
    yield Attack("every word of the prompt, sorted", " ".join(sorted(set(whole.split()))))
    yield Attack("the prompt between zero-width characters", "\u200b".join(last))


def _hedges(task: Task, strange: Sequence[str]) -> Iterator[Attack]:
    """All answers at once; the right one stands between two others, as chance would have it."""
    if len(strange) < 2 or not task.reference:
        return
    all_of = [strange[0], task.reference, *strange[1:]]
    yield Attack("a hedge with all answers, one a line", "\n".join(all_of))
    yield Attack("a hedge with all answers, by `or`", " or ".join(all_of))
