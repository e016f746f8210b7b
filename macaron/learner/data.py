"""What the learner is given: token ids and numbers only, no text, no tasks, no files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Scorer = Callable[[Sequence[int], Sequence[Sequence[int]]], list[float | None]]
"""(prompt indices, response token ids) -> rewards in [0, 1]; None where scoring failed."""


@dataclass(frozen=True)
class Response:
    """One response of the policy. Where it used tools, their results are among its tokens."""

    token_ids: Sequence[int]
    logprobs: Sequence[float]
    """log p under the sampler; of tokens that it did not sample, any number."""
    sampled: Sequence[bool] = ()
    """Which tokens the policy sampled, and so carry loss; empty means all."""


@dataclass(frozen=True)
class Group:
    """The responses to one prompt, with their rewards."""

    prompt_ids: Sequence[int]
    responses: Sequence[Response]
    rewards: Sequence[float | None]


Player = Callable[[Sequence[int], int, int], list[Group]]
"""(prompt indices, responses a prompt, seed) -> a group a prompt, in order.

A prompt's group depends on the seed and on its index alone."""

StepHook = Callable[[dict[str, Any]], None]
"""Called once a step, on rank 0, with that step's metrics (JSON values)."""


@dataclass(frozen=True)
class Example:
    """A response to learn by likelihood; only its response tokens carry loss."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    weight: float = 1.0


@dataclass(frozen=True)
class SpecialistData:
    """One specialist's training data."""

    prompts: Sequence[Sequence[int]]
    """Token ids, in the order of use: step s takes prompts[s * n : (s + 1) * n]."""
    score: Scorer
    examples: Sequence[Example] = ()
    """Validated experience: corrections and turns with a verified good outcome."""
    routing: Sequence[Example] = ()
    """Labelled turns; the router's specialist only."""
    play: Player | None = None
    """Samples and scores in place of the engine and `score`, where a response takes more than one
    sampling: it uses tools, or a harness has a say in it."""
    max_tokens: int = 64
    """Longest response, tokens."""
    stop_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class TrainingSummary:
    """What one specialist's training did."""

    steps: int
    trained_tokens: int
    """Response tokens that carried a policy gradient."""
    example_tokens: int
    routing_tokens: int
    groups: int
    skipped_groups: int
    """Groups whose valid rewards are all equal: no advantage, no gradient."""
    invalid_rewards: int
    first_reward: float
    """Mean reward of the first step."""
    last_reward: float
