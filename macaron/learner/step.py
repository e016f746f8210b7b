"""One optimizer step of one specialist: sample, score, learn.

What it draws depends on (seed, specialist, step) alone. The optimizer steps only after every
number of the step was found finite.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from macaron.engines.base import Completion, SampleParams
from macaron.engines.local import LocalEngine
from macaron.engines.randomness import derive
from macaron.learner import guards
from macaron.learner.backend import Backend, Updater
from macaron.learner.batch import (
    Counts,
    Rollouts,
    count,
    example_trees,
    normalised,
    over_ranks,
    policy_trees,
)
from macaron.learner.data import Example, Group, Response, SpecialistData
from macaron.learner.layout import Layout
from macaron.learner.loss import step_loss, targets
from macaron.learner.schedule import learning_rate, share, step_examples, step_prompts
from macaron.learner.tree import Tree, split
from macaron.profile import GrpoConfig

ROUTING_WEIGHT = 1.0
"""Of the routing loss, beside the policy's."""


@dataclass(frozen=True)
class Learned:
    """What passes over one rank's trees give."""

    loss: float
    gap: float
    """Largest |learner - sampler| log-probability."""
    gradients: Sequence[Tensor]


@dataclass(frozen=True)
class Training:
    """What all steps of one specialist share."""

    engine: LocalEngine
    adapter: str
    data: SpecialistData
    config: GrpoConfig
    specialist: str
    seed: int
    backend: Backend
    layout: Layout
    parameters: Sequence[nn.Parameter]

    def run(self, step: int, updater: Updater) -> tuple[Counts, dict[str, Any]]:
        """One step, counted from 0.

        Returns:
            The counts of all ranks, and the step's metrics.

        Raises:
            TrainingError: a number is not finite, or sampler and learner disagree.
        """
        where = f"{self.specialist}, step {step + 1}"
        started = time.perf_counter()
        indices, first = self._prompts(step)
        # The adapter stands still from the sampling to the first gradient.
        with self.engine.passes(self.adapter):
            rollouts, scoring = self._roll_out(step, indices, first, where)
            rolled_out = time.perf_counter()
            counts, trees = self._batch(step, rollouts)
            learned = self._learn(trees, where, on_policy=True)
        lr = learning_rate(self.config, step)
        norm = self._update(counts, trees, learned.gradients, updater, lr, where)
        [loss], gap = self.backend.sum([learned.loss]), self.backend.max(learned.gap)
        metrics = {
            "step": step + 1,
            "steps": self.config.steps,
            "reward": counts.reward,
            "loss": loss,
            "grad_norm": norm,
            "lr": lr,
            "trained_tokens": int(counts.trained_tokens),
            "example_tokens": int(counts.example_tokens),
            "routing_tokens": int(counts.routing_tokens),
            "skipped_groups": int(counts.skipped_groups),
            "invalid": int(counts.invalid_rewards),
            "logprob_gap": gap,
            "sample_seconds": rolled_out - started - scoring,
            "score_seconds": scoring,
            "update_seconds": time.perf_counter() - rolled_out,
        }
        return counts, metrics

    def _prompts(self, step: int) -> tuple[list[int], int]:
        """This rank's prompts, and the place of the first among all ranks'."""
        indices = step_prompts(self.config, len(self.data.prompts), step)
        mine = share(len(indices), self.backend.rank, self.backend.size)
        return [indices[i] for i in mine], mine.start

    def _roll_out(
        self, step: int, indices: Sequence[int], first: int, where: str
    ) -> tuple[Rollouts, float]:
        """The prompts' scored responses, and the seconds that scoring took by itself."""
        seed, n = derive(self.seed, self.specialist, step), self.config.group
        scoring = 0.0
        if self.data.play is not None:
            groups = self.data.play(indices, n, seed)
            rewards = [reward for group in groups for reward in group.rewards]
            guards.check_rewards(rewards, n * len(indices), where, indices)
        else:
            sampled = self._sample(indices, first, seed)
            started = time.perf_counter()
            groups = self._score(indices, sampled, where)
            scoring = time.perf_counter() - started
        logprobs = [p for group in groups for r in group.responses for p in r.logprobs]
        guards.check_finite(torch.tensor(logprobs), "a sampled log-probability", where, indices)
        return Rollouts(indices, groups), scoring

    def _sample(self, indices: Sequence[int], first: int, seed: int) -> list[list[Completion]]:
        params = SampleParams(
            max_tokens=self.data.max_tokens,
            temperature=self.config.temperature,
            seed=seed,
            stop_ids=self.data.stop_ids,
        )
        prompts = [self.data.prompts[i] for i in indices]
        return self.engine.sample(prompts, self.adapter, params, self.config.group, first=first)

    def _score(
        self, indices: Sequence[int], sampled: Sequence[Sequence[Completion]], where: str
    ) -> list[Group]:
        """The responses with their rewards."""
        n = self.config.group
        rewards = self.data.score(
            [i for i in indices for _ in range(n)], [c.token_ids for g in sampled for c in g]
        )
        guards.check_rewards(rewards, n * len(indices), where, indices)
        return [
            Group(
                self.data.prompts[i],
                [Response(c.token_ids, c.logprobs) for c in group],
                rewards[n * place : n * (place + 1)],
            )
            for place, (i, group) in enumerate(zip(indices, sampled, strict=True))
        ]

    def _batch(self, step: int, rollouts: Rollouts) -> tuple[Counts, list[Tree]]:
        """The counts of all ranks, and this rank's trees with global weights."""
        config = self.config
        policy = policy_trees(rollouts, config.temperature)
        given = self._given(self.data.examples, config.experience_batch, "examples", step)
        examples = example_trees(given, config.experience_weight, "an example")
        labelled = self._given(self.data.routing, config.routing_batch, "routing", step)
        routing = example_trees(labelled, ROUTING_WEIGHT, "a routed turn")
        counts = over_ranks(count(rollouts, policy, examples, routing), self.backend.sum)
        return counts, [
            *normalised(policy, counts.trained_tokens),
            *normalised(examples, counts.example_tokens),
            *normalised(routing, counts.routing_tokens),
        ]

    def _given(
        self, items: Sequence[Example], size: int, kind: str, step: int
    ) -> Sequence[Example]:
        """This rank's part of the step's given examples."""
        chosen = step_examples(items, size, derive(self.seed, self.specialist, kind), step)
        return [chosen[i] for i in share(len(chosen), self.backend.rank, self.backend.size)]

    def _update(
        self,
        counts: Counts,
        trees: Sequence[Tree],
        gradients: Sequence[Tensor],
        updater: Updater,
        lr: float,
        where: str,
    ) -> float:
        """Steps the optimizer once an epoch; the first gradient's norm, over all ranks.

        Where no rank has a token it does not step: its momentum would move the adapter by itself.
        """
        if not counts.tokens:
            return 0.0
        norm = updater.step(gradients, lr)
        for _ in range(1, self.config.epochs):
            updater.step(self._learn(trees, where, on_policy=False).gradients, lr)
        return norm

    def _learn(self, trees: Sequence[Tree], where: str, on_policy: bool) -> Learned:
        """Passes over this rank's trees."""
        total = gap = 0.0
        gradients = [torch.zeros_like(p) for p in self.parameters]
        with self.engine.passes(self.adapter):
            for part in split(trees, self.config.pass_tokens):
                names = [tree.label for tree in part]
                logprobs = self.layout.logprobs(self.engine, part)
                guards.check_finite(logprobs, "a log-probability", where, names)
                loss, apart = step_loss(logprobs, targets(part), self.config.clip)
                guards.check_finite(loss.detach(), "the loss", where, names)
                if on_policy:
                    guards.check_gap(apart, self.engine.causal.dtype, where, names)
                # Not loss.backward(): gradients gathered on a parameter wake ZeRO's hooks.
                found = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
                torch._foreach_add_(gradients, found)
                total, gap = total + float(loss.detach()), max(gap, apart)
        norms = torch.stack(torch._foreach_norm(gradients))
        guards.check_finite(norms, "a gradient", where, [tree.label for tree in trees])
        return Learned(total, gap, gradients)
