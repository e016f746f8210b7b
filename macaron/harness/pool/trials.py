"""Trials: a tool on held-out references, in the sandbox, judged outside of it.

Only counts come out. No argument, no expected value and no text of the tool's own reaches anyone
who could write the next tool by it.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from macaron.files import digest_value
from macaron.harness.namespace import Namespace, NamespaceLimits
from macaron.harness.pool.references import Reference, References
from macaron.harness.pool.running import call_in, define_in, job
from macaron.harness.sandbox import Result, Sandbox
from macaron.harness.tools import ToolBox
from macaron.pool.candidate import Candidate

BATCH = 8
"""References in one trial: a guess that is right half of the time passes one in 256."""


class Policy(Protocol):
    """The HCP's rules of the pool."""

    @property
    def trials(self) -> int:
        """Trials before a tool is promoted, and in a re-trial."""

    @property
    def passes(self) -> int:
        """Trials that must be passed."""

    @property
    def demote_after(self) -> int:
        """Failing re-trials that demote."""

    @property
    def demote_sessions(self) -> int:
        """Sessions in a row, in each of which every use raised, that demote."""

    @property
    def retrial_uses(self) -> int:
        """Uses after which a tool is tried again; one that raised calls for it at once."""


@dataclass(frozen=True)
class Report:
    """What came of one candidate's trials."""

    seed: int
    """The references are those of this seed: anyone who may see them can try again."""
    trials: int
    needed: int
    passed: int
    faults: Mapping[str, int]
    """Kind -> trials that failed so: wrong, raised, timeout, memory, killed, output. Those after
    which it could no longer pass were not run."""

    @property
    def good(self) -> bool:
        """Whether it passed as often as it had to."""
        return self.passed >= self.needed

    def __str__(self) -> str:
        faults = ", ".join(f"{n} {kind}" for kind, n in sorted(self.faults.items()))
        text = f"passed {self.passed} of {self.trials} trials, {self.needed} are needed"
        return f"{text} ({faults})" if faults else text


class TrialsInvalid(Exception):  # noqa: N818  (no fault of the tool, and no error of a person's)
    """The trials could not be judged: the sandbox or a verifier failed. Nothing is known."""


@dataclass(frozen=True)
class Examiner:
    """Who tries tools."""

    references: References
    sandbox: Sandbox
    seed: int
    """Of the host; with the tool's digest it gives the references."""
    namespaces: Callable[[], Namespace] = lambda: Namespace(NamespaceLimits(cpu_s=1))
    """Opens what a tool runs in that calls other tools."""

    def examine(self, tool: Candidate, trials: int, needed: int, *occasion: int | str) -> Report:
        """Tries the tool on references that no earlier occasion had.

        It stops at the trial after which too few are left, so that a tool which takes its whole
        time costs one run.

        Raises:
            TrialsInvalid: the sandbox or a verifier failed.
        """
        seed = _seed(self.seed, tool.digest, *occasion)
        passed, faults = 0, Counter[str]()
        for trial in range(trials):
            fault = self._trial(tool, self._draw(tool, seed, trial))
            passed += not fault
            faults[fault] += bool(fault)
            if faults.total() > trials - needed:
                break
        return Report(seed, trials, needed, passed, dict(+faults))

    def _trial(self, tool: Candidate, batch: Sequence[Reference]) -> str:
        """The fault of one trial; empty where it was passed."""
        if tool.calls:
            return self._trial_with_tools(tool, batch)
        # One call after the other in one process: a tool that remembers calls goes wrong.
        arguments = [reference.arguments for reference in batch]
        return _fault(self.sandbox.run([job(tool, arguments)])[0], batch)

    def _trial_with_tools(self, tool: Candidate, batch: Sequence[Reference]) -> str:
        with self.namespaces() as namespace:
            if fault := _fault(define_in(namespace, tool), ()):
                return fault
            for reference in batch:
                box = ToolBox(reference.tools)
                try:
                    result = call_in(namespace, tool, reference.arguments, box.run)
                except Exception as error:
                    raise TrialsInvalid(f"a tool failed: {type(error).__name__}") from error
                if fault := _fault(result, (reference,)):
                    return fault
        return ""

    def _draw(self, tool: Candidate, seed: int, trial: int) -> Sequence[Reference]:
        rng = random.Random(_seed(seed, trial))
        drawn = list(self.references.references(tool.name, rng, BATCH))
        if len(drawn) != BATCH:
            raise ValueError(f"{len(drawn)} references for {tool.name!r}, asked for {BATCH}")
        return drawn


def amount(policy: Policy, failed: int) -> tuple[int, int]:
    """Trials, and passes needed, where so many candidates of the name have failed before.

    Whoever tries often passes by luck at last: with one batch of trials more each time that the
    attempts double, the chance that any of a thousand attempts of the same quality passes by
    luck stays near that of the first.
    """
    trials = policy.trials * (1 + failed.bit_length())
    return trials, -(-trials * policy.passes // policy.trials)


def _seed(*parts: int | str) -> int:
    """63 bits; different parts give unrelated seeds."""
    return int(digest_value(parts)[:16], 16) >> 1


def _fault(result: Result, batch: Sequence[Reference]) -> str:
    """What was wrong with a run on the batch; empty where nothing was."""
    if result.outcome == "invalid":
        raise TrialsInvalid(result.error)
    if result.outcome != "ok":
        return "raised" if result.outcome == "error" else result.outcome
    if len(result.outputs) != len(batch):
        return "wrong"
    try:
        right = [r.accepts(value) for r, value in zip(batch, result.outputs, strict=True)]
    except Exception as error:
        raise TrialsInvalid(f"a verifier failed: {type(error).__name__}") from error
    return "" if all(right) else "wrong"
