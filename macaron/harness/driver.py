"""Runs many sessions' turns at once, so that an engine samples in batches.

What a session samples depends on its own seed and nothing else: not on which others run beside it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from macaron.engines.base import Completion, Engine, SampleParams
from macaron.harness.session import Session
from macaron.harness.turn import Request, Turn
from macaron.messages import Message

Start = tuple[Session, Sequence[Message], str]
"""A session, what is new in it, and the specialist to answer."""
Step = Callable[[], Request | Turn]

THREADS = 8
"""Sessions that act at once: their tools and sandboxes wait, not this process."""


def run_turns(
    engine: Engine,
    adapters: Mapping[str, str | None],
    starts: Sequence[Start],
    threads: int = THREADS,
) -> list[Turn]:
    """A turn of each session, sampled in lockstep.

    Args:
        engine: where the base is resident.
        adapters: specialist -> adapter revision; None, or none at all, is the bare base.
        starts: different sessions. Their turns are neither delivered nor undone here.
        threads: sessions whose tools run at once; 1 runs them one after another.
    """
    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        first = [partial(session.begin, messages, key) for session, messages, key in starts]
        states = _together(pool, first)
        while due := {i: s for i, s in enumerate(states) if isinstance(s, Request)}:
            done = _sample(engine, adapters, due)
            steps = [partial(starts[i][0].advance, done[i]) for i in due]
            for i, state in zip(due, _together(pool, steps), strict=True):
                states[i] = state
    return [state for state in states if isinstance(state, Turn)]


def _together(pool: ThreadPoolExecutor, steps: Iterable[Step]) -> list[Request | Turn]:
    return list(pool.map(lambda step: step(), steps))


def _sample(
    engine: Engine, adapters: Mapping[str, str | None], due: Mapping[int, Request]
) -> dict[int, Completion]:
    groups: dict[tuple[str | None, SampleParams], list[int]] = defaultdict(list)
    for i, request in due.items():
        groups[adapters.get(request.specialist), replace(request.params, seed=0)].append(i)
    done: dict[int, Completion] = {}
    for (adapter, params), members in groups.items():
        prompts = [due[i].prompt for i in members]
        seeds = [due[i].params.seed for i in members]
        sampled = engine.sample(prompts, adapter, params, seeds=seeds)
        done.update({i: one for i, (one,) in zip(members, sampled, strict=True)})
    return done
