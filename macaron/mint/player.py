"""The learner's rollouts where a response takes more than one sampling: whole episodes.

They are played by the runtime that serves, with the adapter in training, so that what is learned
from is what would have happened.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from macaron.engines.base import Engine
from macaron.engines.randomness import derive
from macaron.environments.base import Task
from macaron.harness.pool.live import Snapshot
from macaron.harness.turn import Turn
from macaron.hcp.document import HCP
from macaron.learner.data import Group, Player, Response
from macaron.mint.episodes import Episode, play, world_of
from macaron.mol.runtime import Runtime
from macaron.pair import load_pool


def needs_episodes(hcp: HCP, specialist: str, tasks: Sequence[Task]) -> bool:
    """Whether a harness or a world has a say between the prompt and the answer.

    Where neither has, the first response is the answer, and its prompt is `answer_prompt`.
    """
    config = hcp.specialists[specialist]
    hooks = any(not hook.specialists or specialist in hook.specialists for hook in hcp.hooks)
    acts = config.surface == "repl" or bool(config.tools) or bool(config.skills)
    plain = not acts and not hooks and not config.stop
    return not plain or any(world_of(task) is not None for task in tasks)


def player(runtime: Runtime, tasks: Sequence[Task], temperature: float) -> Player:
    """Plays the tasks for the learner.

    Args:
        runtime: its adapters are names on the learner's engine.
        tasks: the prompts' tasks, in their order.
        temperature: of the policy that is trained.
    """

    def groups(indices: Sequence[int], n: int, seed: int) -> list[Group]:
        asked = [tasks[i] for i in indices for _ in range(n)]
        seeds = [derive(seed, i, sample) for i in indices for sample in range(n)]
        episodes = play(runtime, asked, seeds, temperature)
        return [_group(episodes[place : place + n]) for place in range(0, len(episodes), n)]

    return groups


def training_runtime(
    engine: Engine, tokenizer: Any, hcp: HCP, specialist: str, parent: Path
) -> Runtime:
    """The runtime around an adapter in training, which is named by its specialist's key.

    Args:
        engine: has the adapter.
        tokenizer: the base's.
        hcp: the harness.
        specialist: who learns.
        parent: folder of the pair that it starts from; its helpers can be called.
    """
    pool = load_pool(parent)
    carried = Snapshot.of(pool) if pool else Snapshot()
    return Runtime(hcp, tokenizer, {specialist: specialist}, carried=carried, engine=engine)


def _group(episodes: Sequence[Episode]) -> Group:
    """One task's episodes. They share the tokens before the first that was sampled."""
    starts = [e.turn.loss_mask.index(True) for e in episodes if any(e.turn.loss_mask)]
    start = min(starts, default=0)
    prompt = next((e.turn.token_ids[:start] for e in episodes if any(e.turn.loss_mask)), ())
    return Group(
        prompt,
        [_response(e.turn, start) for e in episodes],
        [e.score.reward if any(e.turn.loss_mask) else None for e in episodes],
    )


def _response(turn: Turn, start: int) -> Response:
    """From the first sampled token to the last."""
    end = max((i + 1 for i, sampled in enumerate(turn.loss_mask) if sampled), default=start)
    kept = slice(start, end)
    return Response(turn.token_ids[kept], turn.logprobs[kept], turn.loss_mask[kept])
