"""What makes a function a step of the cycle: a Prefect task that is shown, retried and cached.

A step's cached result counts only while the files that it names still have their digests.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, cast

import prefect
from prefect.cache_policies import CachePolicy
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.tasks import Task

from macaron.errors import MacaronError
from macaron.files import digest_value, read_json, write_json
from macaron.mindforge.artifact import Artifact
from macaron.mindforge.cycle import Cycle
from tasks.console import Line, progress

P = ParamSpec("P")
Body = Callable[Concatenate[Line, Cycle, P], Artifact]


@dataclass
class VerifiedInputs(CachePolicy):
    """Caches by cycle, step and inputs, as long as the receipt's artifact still holds."""

    def compute_key(
        self,
        task_ctx: TaskRunContext,
        inputs: Mapping[str, Any],
        flow_parameters: Mapping[str, Any],
        **kwargs: Any,
    ) -> str | None:
        """The cache key, or None to run the step whatever is cached."""
        cycle = inputs["cycle"]
        values = {k: v.model_dump(mode="json") for k, v in inputs.items()}
        key = digest_value([task_ctx.task.name, values])
        receipt = _receipt(cycle, task_ctx.task.name)
        if receipt.exists() and not Artifact.model_validate(read_json(receipt)).holds():
            return None
        return key


def _receipt(cycle: Cycle, name: str) -> Path:
    return cycle.dir / "receipts" / f"{name}.json"


def _may_retry(task: Task[Any, Any], run: TaskRun, state: State[Any]) -> bool:
    """A fault of the user or of the data is the same the second time."""
    error = state.result(raise_on_failure=False)
    return not isinstance(error, MacaronError)


def _announce_cached(task: Task[Any, Any], run: TaskRun, state: State[Any]) -> None:
    if state.name == "Cached":
        progress.say(task.name, "done before")


def step(retries: int = 0) -> Callable[[Body[P]], Task[Concatenate[Cycle, P], Artifact]]:
    """Makes `function(line, cycle, ...)` the step of the function's name."""

    def decorate(function: Body[P]) -> Task[Concatenate[Cycle, P], Artifact]:
        name = function.__name__

        @functools.wraps(function)
        def run(cycle: Cycle, *args: P.args, **kwargs: P.kwargs) -> Artifact:
            with progress.step(name) as line:
                result = function(line, cycle, *args, **kwargs)
            write_json(_receipt(cycle, name), result.model_dump(mode="json"))
            return result

        # Prefect binds and caches by the signature; the line is ours.
        parameters = list(inspect.signature(function).parameters.values())[1:]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        task: Task[Concatenate[Cycle, P], Artifact] = prefect.task(
            name=name,
            cache_policy=VerifiedInputs(),
            persist_result=True,
            result_serializer="json",
            retries=retries,
            retry_delay_seconds=2,
            retry_condition_fn=_may_retry,
            on_completion=[_announce_cached],
        )(cast(Callable[Concatenate[Cycle, P], Artifact], run))
        return task

    return decorate
