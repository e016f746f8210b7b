"""What one step learns from: prompts, each with the responses that share it.

Weights are normalised before a tree is made: summing the losses of all trees of all ranks gives
the step's loss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Branch:
    """One response: sampled, with an advantage, or given, with a likelihood weight."""

    token_ids: Sequence[int]
    old: Sequence[float] = ()
    """The sampler's log-probabilities; empty where the response was given."""
    learned: Sequence[bool] = ()
    """Which tokens carry loss; empty means all. The others are what tools said in between."""
    advantage: float = 0.0
    """Divided by the global number of policy tokens."""
    weight: float = 0.0
    """Of -log p, a token, divided by the global number of such tokens."""
    times: int = 1
    """How often the response was sampled; its loss counts as often."""

    @property
    def learned_tokens(self) -> int:
        """Tokens that carry loss."""
        return sum(self.learned) if self.learned else len(self.token_ids)


@dataclass(frozen=True)
class Tree:
    """A prompt and its responses."""

    prompt_ids: Sequence[int]
    branches: Sequence[Branch] = field(default_factory=tuple)
    temperature: float = 1.0
    """Of the distribution whose log-probabilities are learned."""
    label: str = ""
    """What an error calls it."""

    @property
    def tokens(self) -> int:
        """Tokens of one forward pass that shares the prompt."""
        return len(self.prompt_ids) + sum(len(b.token_ids) for b in self.branches)


def split(trees: Sequence[Tree], tokens: int) -> Iterator[list[Tree]]:
    """Trees of like shape together, at most `tokens` tokens at a time, or one tree."""
    part: list[Tree] = []
    size = 0
    for tree in sorted(trees, key=_shape):
        if part and size + tree.tokens > tokens:
            yield part
            part, size = [], 0
        part.append(tree)
        size += tree.tokens
    if part:
        yield part


def _shape(tree: Tree) -> tuple[int, int]:
    return max(len(b.token_ids) for b in tree.branches), len(tree.prompt_ids)
