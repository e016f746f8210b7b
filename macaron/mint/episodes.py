"""Episodes: tasks played by a pair's own runtime, and what their ends are worth.

Rollouts, judgements and training all play here; nobody renders a prompt or calls a tool otherwise.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from macaron.environments import environment, references, verify
from macaron.environments.base import Score, Task, World
from macaron.harness.pool.live import LivePool
from macaron.harness.turn import Turn
from macaron.mol.kit import Workshop, saves
from macaron.mol.runtime import Runtime


@dataclass(frozen=True)
class Episode:
    """One attempt at a task."""

    turn: Turn
    score: Score


def play(
    runtime: Runtime, tasks: Sequence[Task], seeds: Sequence[int], temperature: float | None = None
) -> list[Episode]:
    """One attempt at each task, each in a session and a world of its own.

    Args:
        runtime: the pair at work.
        tasks: any mixture; the same task may be there many times.
        seeds: of the sessions; an attempt depends on its own seed and on no other attempt.
        temperature: in place of the HCP's.
    """
    worlds = [world_of(task) for task in tasks]
    with tempfile.TemporaryDirectory() as folder:
        sessions = [
            runtime.session(
                seed,
                world.tools() if world else (),
                temperature,
                # Attempts share this process's time: the clock says nothing of any one of them.
                clock=lambda: 0.0,
                scratch=_scratch(runtime, Path(folder) / str(place), seed),
            )
            for place, (seed, world) in enumerate(zip(seeds, worlds, strict=True))
        ]
        try:
            starts = zip(sessions, tasks, strict=True)
            turns = runtime.turns([(s, task.messages, task.specialist) for s, task in starts])
        finally:
            for session in sessions:
                session.close()
    scores = _scores(tasks, turns, worlds)
    return [Episode(turn, score) for turn, score in zip(turns, scores, strict=True)]


def _scratch(runtime: Runtime, folder: Path, seed: int) -> Workshop | None:
    """A pool of an attempt's own: what it saves is tried as in serving, and ends with it."""
    if not saves(runtime.hcp):
        return None
    return Workshop(LivePool(folder, None, ["rollout"]), references(), seed)


def world_of(task: Task) -> World | None:
    """A fresh world for the task; None where its environment only reads the answer."""
    make = getattr(environment(task.environment), "world", None)
    return make(task) if make else None


def _scores(
    tasks: Sequence[Task], turns: Sequence[Turn], worlds: Sequence[World | None]
) -> list[Score]:
    plain = [i for i, world in enumerate(worlds) if world is None]
    read = verify([tasks[i] for i in plain], [turns[i].answer for i in plain])
    scores = dict(zip(plain, read, strict=True))
    for i, world in enumerate(worlds):
        if world is not None:
            scores[i] = world.score(turns[i].answer)
        if turns[i].stop_reason in ("sandbox", "tool"):
            # A fault of ours is no fault of the policy's.
            scores[i] = Score(None, error=turns[i].error)
    return [scores[i] for i in range(len(tasks))]
