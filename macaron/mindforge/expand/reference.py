"""A policy that knows the answer: it says each task's reference, so that what comes out otherwise
was lost by the harness.

It obeys what engines obey: the longest response, the stop ids, the end of turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from macaron.engines.base import Completion, SampleParams
from macaron.engines.randomness import derive
from macaron.environments.base import Task
from macaron.harness.template import ChatTemplate, template_of
from macaron.mint.episodes import Episode, play
from macaron.mol.runtime import Runtime


class ReferenceEngine:
    """Says a written text in each session; `rank` knows nothing.

    Args:
        template: of the base.
        texts: a session's seed -> what is said in its every response.
        rounds: most responses of a turn.
    """

    def __init__(self, template: ChatTemplate, texts: Mapping[int, str], rounds: int) -> None:
        self._template = template
        # A request knows its own seed only, which follows from the session's, turn and round.
        self._texts = {
            derive(seed, 0, number): text
            for seed, text in texts.items()
            for number in range(rounds)
        }

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        adapter: str | None,
        params: SampleParams,
        n: int = 1,
        seeds: Sequence[int] | None = None,
    ) -> list[list[Completion]]:
        """The text of each prompt's session, `n` times."""
        said = [self._texts[seed] for seed in seeds or [params.seed] * len(prompts)]
        return [[self._completion(text, params)] * n for text in said]

    def rank(
        self,
        prompts: Sequence[Sequence[int]],
        options: Sequence[Sequence[int]],
        adapter: str | None,
    ) -> list[list[float]]:
        """No option is likelier than another."""
        return [[0.0] * len(options) for _ in prompts]

    def _completion(self, text: str, params: SampleParams) -> Completion:
        ids = [*self._template.plain_ids(text), *self._template.stop_ids[:1]]
        ends = [place for place, token in enumerate(ids) if token in params.stop_ids]
        whole = ids[: ends[0] + 1] if ends else ids
        kept = whole[: params.max_tokens]
        stopped = len(kept) == len(whole) and bool(ends)
        return Completion(kept, [0.0] * len(kept), "stop" if stopped else "length")


def play_references(runtime: Runtime, tasks: Sequence[Task]) -> list[Episode]:
    """Each task's reference through the runtime's own harness, in a world of its own."""
    seeds = list(range(len(tasks)))
    rounds = max((s.max_rounds for s in runtime.hcp.specialists.values()), default=1)
    texts = {seed: task.reference for seed, task in zip(seeds, tasks, strict=True)}
    engine = ReferenceEngine(template_of(runtime.tokenizer), texts, rounds)
    return play(replace(runtime, engine=engine), tasks, seeds)
