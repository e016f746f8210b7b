"""One expansion: survey, search, finals, judgement on unseen tasks."""

import random
from collections.abc import Mapping, Sequence

from macaron.engines.randomness import derive
from macaron.environments import environment
from macaron.environments.base import Task
from macaron.mindforge.expand.attempts import Batches
from macaron.mindforge.expand.candidate import Candidate
from macaron.mindforge.expand.finals import finalists, halve, judge, merge
from macaron.mindforge.expand.result import Expansion, spent
from macaron.mindforge.expand.search import Found, Search, Setting, survey

Tasks = Mapping[str, Sequence[Task]]
"""Specialist -> tasks."""


def expand(setting: Setting, practice: Tasks, unseen: Tasks, batches: Batches) -> Expansion:
    """Searches a harness for the frozen pair and says what it is worth.

    Args:
        setting: what is searched.
        practice: what failures are looked for in, and winners chosen by.
        unseen: what winners are judged on; none of it is in practice.
        batches: where attempts are made.
    """
    tasks = [task for own in practice.values() for task in own]
    failures = survey(setting, tasks, batches)
    found = Search(setting, failures, batches).run()
    _, winners = merge(setting.base, _winners(setting, found, practice, batches))
    rows = judge(setting, winners, unseen, batches)
    judged = zip(winners, rows, strict=True)
    hcp, accepted = merge(setting.base, [one for one, row in judged if row.accepted])
    return Expansion(hcp, accepted, rows, len(failures), found, batches.attempts, spent(batches))


def _winners(setting: Setting, found: Found, practice: Tasks, batches: Batches) -> list[Candidate]:
    """The best of each specialist's finalists, where it is not the base."""
    winners = []
    for key in found.candidates:
        tasks = list(practice[key])
        random.Random(derive(setting.seed, "finals", key)).shuffle(tasks)
        last = finalists(found, key, batches, setting.config.finalists)
        winner = halve(last, tasks, batches)
        if winner.edits:
            winners.append(winner)
    return winners


def unseen_tasks(
    environments: Mapping[str, Sequence[str]], known: Sequence[Task], count: int, seed: int
) -> dict[str, list[Task]]:
    """Fresh train tasks whose prompts are not among the known ones.

    Args:
        environments: specialist -> its environments, which share the count.
        known: the bank and the practice.
        count: a specialist; fewer where its environments have no more prompts.
        seed: of the search; no bank and no sealed item is drawn with what is made of it.
    """
    seen = {_prompt(task) for task in known}
    found: dict[str, list[Task]] = {}
    for key, names in environments.items():
        share = -(-count // max(1, len(names)))
        found[key] = [task for name in names for task in _fresh(name, seen, share, seed)][:count]
    return found


def _fresh(name: str, seen: set[str], count: int, seed: int) -> list[Task]:
    rng, made = random.Random(derive(seed, "unseen", name)), environment(name)
    fresh: dict[str, Task] = {}
    for _ in range(50 * count):
        if len(fresh) == count:
            break
        task = made.sample(rng, "train")
        if _prompt(task) not in seen:
            fresh.setdefault(_prompt(task), task)
    return list(fresh.values())


def _prompt(task: Task) -> str:
    return "\n".join(f"{message['role']} {message['content']}" for message in task.messages)
