"""Population: mutation and crossover of candidates that led somewhere; GEPA's front over tasks.

A parent is drawn by how many tasks it is the best on, so that what solves one rare task lives on
beside what solves many (Agrawal et al., 2025, arXiv 2507.19457).
"""

import random
from collections.abc import Mapping, Sequence

from macaron.mindforge.expand.attempts import Attempt
from macaron.mindforge.expand.candidate import Candidate, Edit, Edits
from macaron.mindforge.expand.templates import MAX_TOKENS


def front(attempts: Sequence[Attempt]) -> dict[str, set[str]]:
    """Candidate -> tasks on which none passed a larger share; those that passed nothing are out."""
    tries: dict[str, dict[str, list[bool]]] = {}
    for attempt in attempts:
        tries.setdefault(attempt.task, {}).setdefault(attempt.candidate, []).append(attempt.passed)
    found: dict[str, set[str]] = {}
    for task, by_candidate in tries.items():
        shares = {name: sum(passed) / len(passed) for name, passed in by_candidate.items()}
        best = max(shares.values())
        for name, share in shares.items():
            if share == best > 0:
                found.setdefault(name, set()).add(task)
    return found


def parent(known: Mapping[str, Candidate], best: Mapping[str, set[str]], rng: random.Random) -> str:
    """Id of a candidate, drawn by the tasks that it leads on; any, where none leads."""
    leading = [name for name in known if best.get(name)]
    if not leading:
        return rng.choice(list(known))
    return rng.choices(leading, [len(best[name]) for name in leading])[0]


def crossed(one: Candidate, other: Candidate, rng: random.Random) -> Edits:
    """Each field that either edits; where both do, one of the two values."""
    values = {edit.path: [edit] for edit in one.edits}
    for edit in other.edits:
        values.setdefault(edit.path, []).append(edit)
    return tuple(rng.choice(options) for options in values.values())


def mutated(one: Candidate, rng: random.Random) -> Edits:
    """One edit moved, where it is a number, or left out."""
    if not one.edits:
        return (Edit(f"specialists.{one.specialist}.temperature", rng.choice((0.4, 0.8, 1.2))),)
    place = rng.randrange(len(one.edits))
    edit = one.edits[place]
    moved = _moved(edit, rng)
    middle = () if moved is None else (moved,)
    return (*one.edits[:place], *middle, *one.edits[place + 1 :])


def _moved(edit: Edit, rng: random.Random) -> Edit | None:
    field = edit.path.rpartition(".")[2]
    if field == "temperature":
        return Edit(
            edit.path, round(max(0.0, edit.value + rng.choice((-0.3, -0.15, 0.15, 0.3))), 2)
        )
    if field == "top_p":
        return Edit(edit.path, round(min(1.0, max(0.5, edit.value + rng.choice((-0.1, 0.1)))), 2))
    if field == "max_tokens":
        return Edit(edit.path, min(MAX_TOKENS, max(1, int(edit.value * rng.choice((0.5, 2))))))
    return None
