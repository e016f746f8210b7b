"""The step's loss: clipped where it should be, masked to responses, normalised over all."""

import pytest
import torch

from macaron.learner.advantages import group_advantages
from macaron.learner.batch import Rollouts, count, normalised, over_ranks, policy_trees
from macaron.learner.data import Group, Response
from macaron.learner.loss import step_loss, targets
from macaron.learner.tree import Branch, Tree, split


def loss_of(new: list[float], branch: Branch, clip: float) -> tuple[float, list[float], float]:
    logprobs = torch.tensor(new, requires_grad=True)
    loss, gap = step_loss(logprobs, targets([Tree([1], (branch,))]), clip)
    [gradient] = torch.autograd.grad(loss, [logprobs])
    return float(loss.detach()), gradient.tolist(), gap


def test_on_policy_gradient_is_minus_the_advantage() -> None:
    branch = Branch([7, 8], old=[-1.0, -2.0], advantage=0.25)
    loss, gradient, gap = loss_of([-1.0, -2.0], branch, 0.2)
    assert loss == pytest.approx(-0.5)
    assert gradient == pytest.approx([-0.25, -0.25])
    assert gap == 0


@pytest.mark.parametrize(("advantage", "moved"), [(1.0, [0.5, 0.5]), (-1.0, [-0.5, -0.5])])
def test_beyond_the_clip_there_is_no_gradient(advantage: float, moved: list[float]) -> None:
    branch = Branch([7, 8], old=[-1.0, -1.0], advantage=advantage)
    new = [-1.0 + m for m in moved]
    assert loss_of(new, branch, 0.2)[1] == [0.0, 0.0]
    assert loss_of(new, branch, 5.0)[1] != [0.0, 0.0]
    back = [-1.0 - m for m in moved]
    assert all(g != 0 for g in loss_of(back, branch, 0.2)[1])


def test_the_gap_is_the_largest_difference_from_the_sampler() -> None:
    branch = Branch([7, 8], old=[-1.0, -2.0], advantage=1.0)
    assert loss_of([-1.01, -2.3], branch, 0.2)[2] == pytest.approx(0.3)


def test_a_given_response_is_learned_by_likelihood() -> None:
    loss, gradient, gap = loss_of([-1.0, -3.0], Branch([7, 8], weight=0.5), 0.2)
    assert (loss, gap) == (pytest.approx(2.0), 0.0)
    assert gradient == pytest.approx([-0.5, -0.5])


def rollouts(rewards: list[float | None]) -> Rollouts:
    responses = [Response([1] * n, [-1.0] * n) for n in range(1, len(rewards) + 1)]
    return Rollouts([0], [Group([5], responses, rewards)])


def test_an_invalid_reward_is_neither_trained_on_nor_counted_as_zero() -> None:
    given = rollouts([1.0, None, 0.0])
    [tree] = policy_trees(given, 1.0)
    assert [len(b.token_ids) for b in tree.branches] == [1, 3]
    counts = count(given, [tree], [], [])
    assert (counts.trained_tokens, counts.invalid_rewards, counts.reward) == (4, 1, 0.5)


def test_what_tools_said_in_between_carries_no_loss() -> None:
    mixed = Response([1, 2, 3], [-1.0, 0.0, -2.0], sampled=[True, False, True])
    given = Rollouts([0], [Group([5], [mixed, Response([4], [-1.0])], [1.0, 0.0])])
    [tree] = policy_trees(given, 1.0)
    assert count(given, [tree], [], []).trained_tokens == 3
    new = torch.tensor([-1.0, -9.0, -2.5, -1.0], requires_grad=True)
    loss, gap = step_loss(new, targets([tree]), 10.0)
    loss.backward()
    assert gap == pytest.approx(0.5)
    assert new.grad is not None
    assert [bool(g) for g in new.grad] == [True, False, True, True]


def test_an_equal_group_is_skipped_and_counted() -> None:
    given = rollouts([1.0, 1.0, 1.0])
    assert policy_trees(given, 1.0) == []
    counts = count(given, [], [], [])
    assert (counts.groups, counts.skipped_groups, counts.trained_tokens) == (1, 1, 0)


def test_tokens_of_all_ranks_weigh_the_same() -> None:
    trees = policy_trees(rollouts([1.0, 0.0]), 1.0)
    counts = over_ranks(count(rollouts([1.0, 0.0]), trees, [], []), lambda v: [3 * x for x in v])
    assert counts.trained_tokens == 9
    [tree] = normalised(trees, counts.trained_tokens)
    assert tree.branches[0].advantage == pytest.approx(trees[0].branches[0].advantage / 9)


def test_equal_responses_are_one_branch_with_the_same_loss() -> None:
    """Two of four responses are equal, one equal one has another reward."""
    ids = ([1, 2], [3], [1, 2], [1, 2])
    group = [Response(t, [-1.0] * len(t)) for t in ids]
    rewards = [1.0, 0.0, 1.0, 0.0]
    given = Rollouts([0], [Group([5], group, rewards)])
    [tree] = policy_trees(given, 1.0)
    assert [(list(b.token_ids), b.times) for b in tree.branches] == [
        ([1, 2], 2),
        ([3], 1),
        ([1, 2], 1),
    ]
    assert count(given, [tree], [], []).trained_tokens == 7
    apart = [
        Tree([5], (Branch(c.token_ids, old=c.logprobs, advantage=a),))
        for c, a in zip(group, group_advantages(rewards), strict=True)
        if a is not None
    ]
    new = torch.full((7,), -1.1)
    loss, _ = step_loss(new[:5], targets([tree]), 0.05)
    expected, _ = step_loss(new, targets(apart), 0.05)
    assert float(loss) == pytest.approx(float(expected))


def test_passes_hold_whole_trees_within_their_size() -> None:
    trees = [Tree([1] * n, (Branch([1] * 3),) * fan) for n, fan in ((4, 2), (5, 2), (9, 1), (3, 2))]
    parts = list(split(trees, 22))
    assert sorted(t.tokens for part in parts for t in part) == sorted(t.tokens for t in trees)
    assert [len(part) for part in parts] == [2, 1, 1]
    assert all(sum(t.tokens for t in part) <= 22 for part in parts)
    assert len(list(split(trees, 1000))) == 1
    assert len(list(split(trees, 1))) == 4
