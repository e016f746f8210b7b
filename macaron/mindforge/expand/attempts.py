"""Attempts: what was played, batch by batch, each batch an artifact with a digest.

The same session is never played twice: a search that was killed reads the batches that are there,
and what an edit does not affect is taken from before.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from macaron.engines.randomness import derive
from macaron.environments.base import Task
from macaron.errors import DigestError
from macaron.files import digest_value, read_json, write_json
from macaron.hcp.document import HCP
from macaron.mint.episodes import Episode, play
from macaron.mol.runtime import Runtime

Phase = Literal["survey", "widened", "search", "finals", "unseen", "sweep"]


@dataclass(frozen=True)
class Ask:
    """One attempt to make."""

    candidate: str
    """Id of its slice."""
    hcp: HCP
    task: Task
    number: int
    """Of the attempt at this task, from 0; attempts of one number share a seed."""


@dataclass(frozen=True)
class Attempt:
    """One attempt that was made."""

    phase: Phase
    batch: int
    candidate: str
    task: str
    specialist: str
    kind: str
    number: int
    reward: float | None
    """None where the verifier failed."""
    stop: str
    tokens: int
    """Sampled."""
    reused: bool = False
    """Taken from an earlier batch: the same slice, task and number, so the same session."""

    @property
    def passed(self) -> bool:
        """Whether it earned the whole reward."""
        return self.reward is not None and self.reward >= 1.0


Play = Callable[[HCP, Sequence[Task], Sequence[int]], Sequence[Episode]]
"""Plays tasks under a harness with the sessions' seeds."""


def player_of(runtime: Runtime, chunk: int) -> Play:
    """Plays on the runtime's engine and adapters, at most `chunk` sessions at once."""

    def run(hcp: HCP, tasks: Sequence[Task], seeds: Sequence[int]) -> list[Episode]:
        own = replace(runtime, hcp=hcp)
        starts = range(0, len(tasks), chunk)
        parts = [play(own, tasks[i : i + chunk], seeds[i : i + chunk]) for i in starts]
        return [episode for part in parts for episode in part]

    return run


class Batches:
    """The batches of one search, in their order.

    Args:
        folder: of their files; made when needed.
        play: makes attempts.
        seed: of the search.
    """

    def __init__(self, folder: Path, play: Play, seed: int) -> None:
        self._folder, self._play, self._seed = folder, play, seed
        self.attempts: list[Attempt] = []
        self.played = 0
        """Attempts that this process played itself."""
        self._count = 0
        self._known: dict[tuple[str, str, int], Attempt] = {}

    def run(self, phase: Phase, asks: Sequence[Ask]) -> list[Attempt]:
        """The attempts that were asked for, in their order.

        Raises:
            DigestError: the batch that is there is damaged, or of another search.
        """
        if not asks:
            return []
        path = self._folder / f"{self._count:04d}-{phase}.json"
        key = self._key(phase, asks)
        rows = self._read(path, key) if path.exists() else self._make(path, key, phase, asks)
        self._count += 1
        self.attempts += rows
        self._known |= {(row.candidate, row.task, row.number): row for row in rows}
        return rows

    def of(self, *phases: Phase) -> list[Attempt]:
        """All attempts of some phases so far."""
        return [attempt for attempt in self.attempts if attempt.phase in phases]

    def spent(self, *phases: Phase) -> int:
        """How many of them cost something."""
        return sum(not attempt.reused for attempt in self.of(*phases))

    def _key(self, phase: Phase, asks: Sequence[Ask]) -> str:
        return digest_value([self._seed, phase, [[a.candidate, a.task.id, a.number] for a in asks]])

    def _read(self, path: Path, key: str) -> list[Attempt]:
        value = read_json(path)
        if value["key"] != key or digest_value(value["rows"]) != value["digest"]:
            why = "is of another search" if value["key"] != key else "was changed"
            raise DigestError(why, where=str(path), mend="remove the folder and search again")
        return [Attempt(**row) for row in value["rows"]]

    def _make(self, path: Path, key: str, phase: Phase, asks: Sequence[Ask]) -> list[Attempt]:
        rows = {i: known for i, ask in enumerate(asks) if (known := self._before(phase, ask))}
        due = [i for i in range(len(asks)) if i not in rows]
        for places in _by_harness(asks, due):
            tasks = [asks[i].task for i in places]
            seeds = [self._session(asks[i]) for i in places]
            episodes = self._play(asks[places[0]].hcp, tasks, seeds)
            for i, episode in zip(places, episodes, strict=True):
                rows[i] = _attempt(phase, self._count, asks[i], episode)
        self.played += len(due)
        made = [rows[i] for i in range(len(asks))]
        values: list[Any] = [asdict(row) for row in made]
        write_json(path, {"key": key, "digest": digest_value(values), "rows": values})
        return made

    def _before(self, phase: Phase, ask: Ask) -> Attempt | None:
        known = self._known.get((ask.candidate, ask.task.id, ask.number))
        return known and replace(known, phase=phase, batch=self._count, reused=True)

    def _session(self, ask: Ask) -> int:
        # Not of the candidate: those that are compared meet the same luck.
        return derive(self._seed, ask.task.id, ask.number)


def _by_harness(asks: Sequence[Ask], places: Sequence[int]) -> Iterator[list[int]]:
    groups: dict[str, list[int]] = {}
    for i in places:
        groups.setdefault(asks[i].hcp.digest, []).append(i)
    yield from groups.values()


def _attempt(phase: Phase, batch: int, ask: Ask, episode: Episode) -> Attempt:
    return Attempt(
        phase=phase,
        batch=batch,
        candidate=ask.candidate,
        task=ask.task.id,
        specialist=ask.task.specialist,
        kind=f"{ask.task.environment}/{ask.task.kind}",
        number=ask.number,
        reward=episode.score.reward,
        stop=episode.turn.stop_reason,
        tokens=sum(episode.turn.loss_mask),
    )
