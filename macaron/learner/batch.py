"""One step's batch: what was sampled and what was given, as weighted trees.

Weights are divided by the token counts of all ranks, so that the ranks' losses simply add up.
"""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace

from macaron.learner.advantages import group_advantages
from macaron.learner.data import Example, Group, Response
from macaron.learner.tree import Branch, Tree


@dataclass(frozen=True)
class Rollouts:
    """A rank's prompts of one step, with their scored responses."""

    indices: Sequence[int]
    """Into the specialist's prompts."""
    groups: Sequence[Group]


@dataclass(frozen=True)
class Counts:
    """What a step's batch holds; adds up over ranks."""

    trained_tokens: float
    example_tokens: float
    routing_tokens: float
    groups: float
    skipped_groups: float
    invalid_rewards: float
    reward_sum: float
    rewards: float

    @property
    def tokens(self) -> float:
        """Tokens that carry loss."""
        return self.trained_tokens + self.example_tokens + self.routing_tokens

    @property
    def reward(self) -> float:
        """Mean of the valid rewards; 0 where there is none."""
        return self.reward_sum / self.rewards if self.rewards else 0.0


def policy_trees(rollouts: Rollouts, temperature: float) -> list[Tree]:
    """A tree for each prompt whose responses differ in reward; weights not yet normalised."""
    trees = []
    for index, group in zip(rollouts.indices, rollouts.groups, strict=True):
        branches = _distinct(group.responses, group_advantages(group.rewards))
        if branches:
            trees.append(Tree(group.prompt_ids, branches, temperature, f"task {index}"))
    return trees


def _distinct(group: Sequence[Response], advantages: Sequence[float | None]) -> tuple[Branch, ...]:
    """A branch for each different response with an advantage; equal ones are one, many times.

    Equal responses with equal rewards have the same loss and gradient, whatever the clip.
    """
    found: dict[tuple[float, ...], Branch] = {}
    for response, advantage in zip(group, advantages, strict=True):
        if advantage is None:
            continue
        key = (advantage, *response.token_ids, *response.sampled)
        first = found.get(key)
        found[key] = (
            replace(first, times=first.times + 1)
            if first
            else Branch(response.token_ids, response.logprobs, response.sampled, advantage)
        )
    return tuple(found.values())


def example_trees(examples: Sequence[Example], weight: float, kind: str) -> list[Tree]:
    """A tree an example; weights not yet normalised."""
    return [
        Tree(e.prompt_ids, (Branch(e.response_ids, weight=weight * e.weight),), label=kind)
        for e in examples
        if e.response_ids and e.weight
    ]


def count(
    rollouts: Rollouts, policy: Sequence[Tree], examples: Sequence[Tree], routing: Sequence[Tree]
) -> Counts:
    """This rank's counts."""
    rewards = [r for group in rollouts.groups for r in group.rewards]
    valid = [r for r in rewards if r is not None]
    return Counts(
        trained_tokens=response_tokens(policy),
        example_tokens=response_tokens(examples),
        routing_tokens=response_tokens(routing),
        groups=len(rollouts.groups),
        skipped_groups=len(rollouts.groups) - len(policy),
        invalid_rewards=len(rewards) - len(valid),
        reward_sum=sum(valid),
        rewards=len(valid),
    )


def over_ranks(counts: Counts, add: Callable[[Sequence[float]], list[float]]) -> Counts:
    """The counts of all ranks together."""
    return Counts(*add(astuple(counts)))


def normalised(trees: Sequence[Tree], tokens: float) -> list[Tree]:
    """The trees with every weight divided by `tokens`."""
    return [
        replace(tree, branches=tuple(_scaled(b, tokens) for b in tree.branches)) for tree in trees
    ]


def _scaled(branch: Branch, tokens: float) -> Branch:
    return replace(branch, advantage=branch.advantage / tokens, weight=branch.weight / tokens)


def response_tokens(trees: Sequence[Tree]) -> int:
    """Tokens that carry loss, each as often as it was sampled."""
    return sum(b.times * b.learned_tokens for tree in trees for b in tree.branches)
