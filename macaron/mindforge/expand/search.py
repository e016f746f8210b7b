"""The search: attribute the failures, breed candidates, spend the attempts where they may help.

Everything random comes from one seed, and every attempt goes through the production harness.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from macaron.contract.document import Contract
from macaron.engines.randomness import derive
from macaron.environments.base import Task
from macaron.hcp.document import HCP
from macaron.mindforge.expand.allocation import Beliefs, choose
from macaron.mindforge.expand.attempts import Ask, Attempt, Batches
from macaron.mindforge.expand.attribution import (
    Attribution,
    of_harness,
    of_tasks,
    of_widened,
)
from macaron.mindforge.expand.candidate import Candidate, Edit, candidate, unchanged
from macaron.mindforge.expand.population import crossed, front, mutated, parent
from macaron.mindforge.expand.reflection import reflect
from macaron.mindforge.expand.templates import ideas, widened
from macaron.mol.runtime import Runtime
from macaron.profile import ExpandConfig


@dataclass(frozen=True)
class Setting:
    """What is searched, and from where."""

    runtime: Runtime
    """The frozen pair at work, under the harness that is searched from."""
    contract: Contract
    """Opens the paths that may be rewritten, and says what a gain must be like."""
    config: ExpandConfig
    seed: int

    @property
    def base(self) -> HCP:
        """The harness that is searched from."""
        return self.runtime.hcp

    @property
    def scope(self) -> Sequence[str]:
        """The paths that may be rewritten."""
        return self.contract.rewritable


@dataclass
class Found:
    """What a search came to."""

    attributions: dict[str, Attribution]
    candidates: dict[str, list[Candidate]] = field(default_factory=dict)
    """Specialist -> those that may be played, the base first."""
    kept_back: list[Candidate] = field(default_factory=list)
    """Refused, or waiting for a person."""
    covered: dict[str, str] = field(default_factory=dict)
    """Task -> the candidate that first passed it."""
    proposals: Counter[str] = field(default_factory=Counter)
    """Origin, or origin and state where it was not open -> how many."""
    stopped: str = ""
    """Why it ended."""


class Search:
    """One search over the failures of a harness.

    Args:
        setting: what is searched.
        failures: tasks that the harness never passed.
        batches: where attempts are made.
    """

    def __init__(self, setting: Setting, failures: Sequence[Task], batches: Batches) -> None:
        self._setting, self._failures, self._batches = setting, list(failures), batches
        self._rng = random.Random(derive(setting.seed, "expand"))
        self._beliefs = Beliefs()
        self._tried: set[tuple[str, str]] = set()
        self._tries: Counter[str] = Counter()
        self._reflections = 0
        self._found = Found({})

    def run(self) -> Found:
        """Searches until everything is covered, little more is to be expected, or all is spent."""
        found = self._found
        found.attributions = self._attribute()
        for key in sorted({task.specialist for task in self._failures}):
            self._seed(key)
        while not found.stopped:
            found.stopped = self._round()
        self._correct()
        return found

    def _correct(self) -> None:
        """What some harness passed in the end is no longer the model's."""
        causes = self._found.attributions
        for task, name in self._found.covered.items():
            if causes[task].cause == "model":
                evidence = {**causes[task].evidence, "candidate": name}
                causes[task] = replace(
                    causes[task], cause="harness", how=("found",), evidence=evidence
                )

    @property
    def _spent(self) -> int:
        return self._batches.spent("widened", "search") + self._reflections

    def _attribute(self) -> dict[str, Attribution]:
        """Every failure's cause; what the widened harness passes on the way is covered."""
        failures = self._failures
        found = of_tasks(failures)
        found |= of_harness(self._setting.runtime, [t for t in failures if t.id not in found])
        rest = [task for task in failures if task.id not in found]
        wide = {
            key: widened(self._setting.base, key, self._setting.scope)
            for key in sorted({task.specialist for task in rest})
        }
        open_ = {key: one for key, one in wide.items() if one.state == "open"}
        asks = [
            self._ask(open_[task.specialist], task)
            for task in rest
            if task.specialist in open_
            for _ in range(self._setting.config.tries)
        ]
        attempts = self._learn(self._batches.run("widened", asks[: self._setting.config.attempts]))
        values = {key: {e.path: e.value for e in one.edits} for key, one in open_.items()}
        return found | of_widened(rest, attempts, values)

    def _seed(self, key: str) -> None:
        """The first candidates of a specialist, from the ways in which its tasks failed."""
        base, found = self._setting.base, self._found
        found.candidates[key] = [unchanged(base, key)]
        own = [a for a in found.attributions.values() if a.specialist == key]
        hows = sorted({how for attribution in own for how in attribution.how})
        tools = sorted({tool for a in own for tool in a.evidence.get("tools", ())})
        for origin, edits in ideas(base, key, hows, tools):
            self._add(key, edits, origin)
        self._reflect(key)

    def _round(self) -> str:
        """One batch; why the search ends, or nothing."""
        config, found = self._setting.config, self._found
        tasks = self._open()
        if not tasks:
            return "covered"
        left = config.attempts - self._spent
        if left <= 0:
            return "budget"
        count = min(config.batch, left)
        self._rng.shuffle(tasks)
        choices = choose(tasks, found.candidates, self._beliefs, self._tried, count, self._rng)
        gain = sum(choice.expected for choice in choices) / max(1, len(choices))
        if not choices or gain < config.min_gain:
            return "gain"
        asks = [self._ask(choice.candidate, choice.task) for choice in choices]
        self._learn(self._batches.run("search", asks))
        self._breed()
        return ""

    def _open(self) -> list[Task]:
        """Failures that are not covered and that a rewrite could help without a person."""
        found = self._found
        return [
            task
            for task in self._failures
            if task.id not in found.covered
            and (why := found.attributions[task.id]).cause != "task"
            and "hidden-tool" not in why.how
        ]

    def _ask(self, one: Candidate, task: Task) -> Ask:
        number = self._tries[task.id]
        # The survey was the first.
        self._tries[task.id] += 1
        return Ask(one.id, one.hcp, task, number + 1)

    def _learn(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        self._beliefs.learn(attempts)
        for attempt in attempts:
            self._tried.add((attempt.candidate, attempt.task))
            if attempt.passed:
                self._found.covered.setdefault(attempt.task, attempt.candidate)
        return attempts

    def _breed(self) -> None:
        """A mutation and a crossover for every specialist with open tasks."""
        best = front(self._batches.of("widened", "search"))
        for key in sorted({task.specialist for task in self._open()}):
            known = {one.id: one for one in self._found.candidates[key]}
            if len(known) >= self._setting.config.population:
                continue
            one, other = (known[parent(known, best, self._rng)] for _ in range(2))
            self._add(key, mutated(one, self._rng), "mutation", (one.id,))
            if one.id != other.id:
                self._add(key, crossed(one, other, self._rng), "crossover", (one.id, other.id))

    def _reflect(self, key: str) -> None:
        """Edits that the model proposes after some of its failures."""
        own = [task for task in self._open() if task.specialist == key]
        count = min(self._setting.config.reflections, len(own), self._left())
        for number, task in enumerate(self._rng.sample(own, max(0, count))):
            seed = derive(self._setting.seed, "reflect", key, number)
            edits = reflect(self._setting.runtime, key, task, seed)
            self._reflections += 1
            if edits:
                self._add(key, edits, "model")
            else:
                self._found.proposals["model: no edit"] += 1

    def _left(self) -> int:
        return self._setting.config.attempts - self._spent

    def _add(
        self, key: str, edits: Sequence[Edit], origin: str, parents: tuple[str, ...] = ()
    ) -> None:
        found = self._found
        made = candidate(self._setting.base, key, edits, self._setting.scope, origin, parents)
        if made.state != "open":
            found.proposals[f"{origin}: {made.state}"] += 1
            found.kept_back.append(made)
        elif made.id in {one.id for one in found.candidates[key]}:
            found.proposals[f"{origin}: known"] += 1
        else:
            found.proposals[origin] += 1
            found.candidates[key].append(made)


def survey(setting: Setting, tasks: Sequence[Task], batches: Batches) -> list[Task]:
    """The tasks that the harness never passes in `tries` attempts; one where it is greedy.

    An attempt that could not be scored is no failure of anyone's, but is looked into as well.
    """
    bases = {key: unchanged(setting.base, key) for key in setting.base.specialists}

    def tries(key: str) -> int:
        return setting.config.tries if setting.base.specialists[key].temperature else 1

    asks = [
        Ask(bases[task.specialist].id, setting.base, task, -number)
        for task in tasks
        for number in range(tries(task.specialist))
    ]
    attempts = batches.run("survey", asks)
    passed = {attempt.task for attempt in attempts if attempt.passed}
    return [task for task in tasks if task.id not in passed]


def by_cause(attributions: Mapping[str, Attribution]) -> dict[str, Any]:
    """Cause -> how many failures."""
    return dict(Counter(attribution.cause for attribution in attributions.values()))
