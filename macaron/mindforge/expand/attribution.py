"""Attribution: whether a failure is the task's, the harness's or the model's, by tests that anyone
can repeat.

In their order: the verifier on the reference; the reference through the same harness; the same
task under a widened harness. What none of them explains is the model's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from macaron.environments import verify
from macaron.environments.base import Score, Task
from macaron.harness.template import template_of
from macaron.hcp.document import HCP
from macaron.mindforge.expand.attempts import Attempt
from macaron.mindforge.expand.reference import play_references
from macaron.mint.episodes import Episode, world_of
from macaron.mol.runtime import Runtime

Cause = Literal["task", "harness", "model"]
How = Literal[
    "crash",
    "rejected",
    "pays-for-nothing",
    "cut",
    "stopped",
    "mangled",
    "hidden-tool",
    "lost",
    "widened",
    "found",
    "beyond",
]
"""
- `crash`, `rejected`, `pays-for-nothing`: the verifier broke, refused the reference, or paid for an
  empty answer.
- `cut`, `stopped`, `mangled`: the reference did not get through: `max_tokens` is too small, it
  holds a stop text, a hook acted on it. `lost`: for another reason.
- `hidden-tool`: the task's world has tools that the specialist may not call.
- `widened`: the reference got through, and the model itself passed under the widened harness.
- `found`: it did not there, but under another harness of the search.
- `beyond`: under none that was tried.
"""


@dataclass(frozen=True)
class Attribution:
    """Whose a failure is."""

    task: str
    specialist: str
    kind: str
    cause: Cause
    how: tuple[How, ...]
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What the tests showed, as JSON values."""


def of_tasks(tasks: Sequence[Task]) -> dict[str, Attribution]:
    """Task id -> attribution, for tasks whose verifier fails its own reference or pays for nothing.

    A world's verifier needs deeds, so that there only a crash can be seen.
    """
    right, empty = _scores(tasks, [t.reference for t in tasks]), _scores(tasks, [""] * len(tasks))
    found = {}
    for task, told, untold in zip(tasks, right, empty, strict=True):
        how = _fault(task, told, untold)
        if how:
            evidence = {"reference": told.reward, "empty": untold.reward, "error": told.error}
            found[task.id] = _made(task, "task", (how,), evidence)
    return found


def _fault(task: Task, told: Score, untold: Score) -> How | None:
    if told.reward is None:
        return "crash"
    if untold.reward is not None and untold.reward >= 1.0:
        return "pays-for-nothing"
    answers_only = bool(task.reference) and world_of(task) is None
    return "rejected" if answers_only and told.reward < 1.0 else None


def _scores(tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
    """One score each; a verifier that raises is a finding about its task and ends nothing."""
    try:
        return verify(tasks, answers)
    except Exception as error:
        if len(tasks) == 1:
            return [Score(None, error=f"{type(error).__name__}: {error}")]
    pairs = zip(tasks, answers, strict=True)
    return [score for task, answer in pairs for score in _scores([task], [answer])]


def of_harness(runtime: Runtime, tasks: Sequence[Task]) -> dict[str, Attribution]:
    """Task id -> attribution, for tasks whose reference does not get through the harness, or whose
    world's tools do not all reach the specialist."""
    found = {}
    for task in tasks:
        if hidden := hidden_tools(runtime.hcp, task):
            found[task.id] = _made(task, "harness", ("hidden-tool",), {"tools": hidden})
    told = [t for t in tasks if t.reference and t.id not in found and world_of(t) is None]
    for task, episode in zip(told, play_references(runtime, told), strict=True):
        if episode.score.reward is not None and episode.score.reward < 1.0:
            found[task.id] = _lost(runtime, task, episode)
    return found


def hidden_tools(hcp: HCP, task: Task) -> list[str]:
    """Tools of the task's world that its specialist may not call."""
    world = world_of(task)
    if world is None:
        return []
    return sorted({tool.name for tool in world.tools()} - {*hcp.specialists[task.specialist].tools})


def _lost(runtime: Runtime, task: Task, episode: Episode) -> Attribution:
    config = runtime.hcp.specialists[task.specialist]
    # The end of turn takes one as well.
    needed = len(template_of(runtime.tokenizer).plain_ids(task.reference)) + 1
    stops = [text for text in config.stop if text in task.reference]
    fired = [firing.hook for firing in episode.turn.firings]
    signs: list[tuple[How, bool]] = [
        ("cut", needed > config.max_tokens),
        ("stopped", bool(stops)),
        ("mangled", bool(fired)),
    ]
    how = tuple(name for name, holds in signs if holds) or ("lost",)
    evidence = {
        "stop": episode.turn.stop_reason,
        "needed_tokens": needed,
        "max_tokens": config.max_tokens,
        "stop_texts": stops,
        "hooks": fired,
        "came_out": episode.turn.answer[:200],
    }
    return _made(task, "harness", how, evidence)


def of_widened(
    tasks: Sequence[Task], attempts: Sequence[Attempt], widened: Mapping[str, Mapping[str, Any]]
) -> dict[str, Attribution]:
    """Task id -> attribution of failures whose reference gets through.

    Args:
        tasks: those.
        attempts: under the widened harness, several a task.
        widened: specialist -> what was widened, path -> value; nothing could be for one not there.
    """
    found = {}
    for task in tasks:
        own = [attempt for attempt in attempts if attempt.task == task.id]
        passed = sum(attempt.passed for attempt in own)
        evidence = {
            "tries": len(own),
            "passed": passed,
            "widened": dict(widened.get(task.specialist, {})),
        }
        cause: Cause = "harness" if passed else "model"
        how: How = "widened" if passed else "beyond"
        found[task.id] = _made(task, cause, (how,), evidence)
    return found


def _made(
    task: Task, cause: Cause, how: tuple[How, ...], evidence: Mapping[str, Any]
) -> Attribution:
    kind = f"{task.environment}/{task.kind}"
    return Attribution(task.id, task.specialist, kind, cause, how, evidence)
