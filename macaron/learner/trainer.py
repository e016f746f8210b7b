"""Training of one specialist: GRPO on its LoRA, sampled from the very model that learns.

A run that was killed and started again ends in the same bits as one that was not. Only the named
adapter's parameters move.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

import torch
from torch import Tensor

from macaron.engines.adapters import adapter_state, assign_adapter, parameters_of
from macaron.engines.local import LocalEngine
from macaron.errors import NothingTrainedError, TrainingError
from macaron.files import digest_bytes, digest_value
from macaron.learner import checkpoint as checkpoints
from macaron.learner import guards
from macaron.learner.backend import Backend, PlainBackend, Updater
from macaron.learner.batch import Counts
from macaron.learner.data import Example, SpecialistData, StepHook, TrainingSummary
from macaron.learner.memory import keep_freed_memory
from macaron.learner.packing import best_layout
from macaron.learner.step import Training
from macaron.profile import GrpoConfig

log = logging.getLogger("macaron.learner")


def train_specialist(
    engine: LocalEngine,
    adapter: str,
    data: SpecialistData,
    config: GrpoConfig,
    *,
    specialist: str,
    seed: int,
    backend: Backend | None = None,
    checkpoint: Path | None = None,
    on_step: StepHook | None = None,
) -> TrainingSummary:
    """Trains an adapter in place, on the engine's resident model.

    Args:
        engine: holds the base and the adapter; other adapters on it stay as they are.
        adapter: the engine's name of the adapter, with the values it starts from.
        data: prompts, scorer, examples. Every rank is given all of it, and takes its share.
        config: the steps.
        specialist: for randomness and errors.
        seed: of the run.
        backend: the processes that train together; None: this one alone, without DeepSpeed.
        checkpoint: folder to keep progress in and to resume from; None keeps none.
        on_step: called on rank 0 with each step's metrics, once its checkpoint is written.

    Raises:
        NothingTrainedError: no step had a token to train on; the adapter is as it was.
        TrainingError: a number was not finite, sampler and learner disagree, another parameter
            moved, or the checkpoint is of another run.
    """
    if not data.prompts:
        raise TrainingError("there are no prompts to train on", where=specialist)
    keep_freed_memory()
    parameters = list(parameters_of(engine.model, adapter).values())
    others = guards.fingerprint(engine.model, adapter)
    for parameter in parameters:
        parameter.requires_grad_(True)
    try:
        layout = best_layout(engine, adapter)
        log.info("%s: layout of the update: %s", specialist, layout.name)
        world = backend or PlainBackend()
        training = Training(
            engine, adapter, data, config, specialist, seed, world, layout, parameters
        )
        progress = _Progress(training, checkpoint)
        progress.train(on_step)
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)
    _check_end(training, others, progress.totals)
    return _summary(config.steps, progress.totals)


class _Progress:
    """How far a training is, in memory and in its checkpoint folder."""

    def __init__(self, training: Training, folder: Path | None) -> None:
        self.training, self.folder = training, folder
        self.step, self.optimizer = 0, dict[str, Tensor]()
        self.totals = dict.fromkeys((f.name for f in fields(Counts)), 0.0)
        self.totals["threads"] = torch.get_num_threads()
        self.run = _identity(training)
        if folder:
            self._resume(folder)

    def _resume(self, folder: Path) -> None:
        found = checkpoints.load_checkpoint(folder, self.run, self.training.backend.rank)
        if found is None:
            return
        assign_adapter(self.training.engine.model, self.training.adapter, found.adapter)
        self.step, self.totals = found.step, dict(found.totals)
        self.optimizer = dict(found.optimizer)
        # Sums over threads are split by their number; another one would give other bits.
        torch.set_num_threads(int(self.totals["threads"]))
        log.info("%s: resumed after step %d", self.training.specialist, self.step)

    def train(self, on_step: StepHook | None) -> None:
        """The steps that are left."""
        training = self.training
        updater = training.backend.updater(training.parameters, training.config)
        try:
            updater.restore(self.optimizer)
            for step in range(self.step, training.config.steps):
                counts, metrics = training.run(step, updater)
                self._add(step, counts)
                if self.folder and self._due():
                    self._save(self.folder, updater)
                if on_step and training.backend.rank == 0:
                    on_step(metrics)
        finally:
            updater.close()

    def _add(self, step: int, counts: Counts) -> None:
        for name, value in asdict(counts).items():
            self.totals[name] += value
        self.totals["last_reward"] = counts.reward
        self.totals.setdefault("first_reward", counts.reward)
        self.step = step + 1

    def _due(self) -> bool:
        config = self.training.config
        return self.step % config.checkpoint_every == 0 or self.step == config.steps

    def _save(self, folder: Path, updater: Updater) -> None:
        training, backend = self.training, self.training.backend
        if backend.rank < backend.shards:
            checkpoints.save_shard(folder, self.step, backend.rank, updater.state())
        backend.wait()
        if backend.rank == 0:
            values = adapter_state(training.engine.model, training.adapter)
            checkpoints.save_state(folder, self.step, self.run, self.totals, values)


def _identity(training: Training) -> str:
    """Digest of all that decides the run, the adapter's first values included."""
    data = training.data
    state = adapter_state(training.engine.model, training.adapter)
    return digest_value(
        {
            "specialist": training.specialist,
            "seed": training.seed,
            "config": training.config.model_dump(),
            "ranks": training.backend.size,
            "prompts": [list(p) for p in data.prompts],
            "limits": [data.max_tokens, list(data.stop_ids)],
            "examples": _plain(data.examples),
            "routing": _plain(data.routing),
            "start": {name: _digest(values) for name, values in state.items()},
        }
    )


def _digest(values: Tensor) -> str:
    return digest_bytes(values.view(torch.uint8).numpy().tobytes())


def _plain(examples: Sequence[Example]) -> list[list[object]]:
    return [[list(e.prompt_ids), list(e.response_ids), e.weight] for e in examples]


def _check_end(training: Training, others: str, totals: Mapping[str, float]) -> None:
    """The adapter has learned from something, is finite, and moved alone."""
    where, batch = training.specialist, ["all"]
    for name, parameter in parameters_of(training.engine.model, training.adapter).items():
        guards.check_finite(parameter.detach(), f"weight {name}", where, batch)
    if not sum(totals[k] for k in ("trained_tokens", "example_tokens", "routing_tokens")):
        raise NothingTrainedError(
            "no token was trained on: every group's rewards are equal or invalid",
            where=where,
            mend="see the rewards of the steps; an environment that never pays cannot teach",
        )
    if guards.fingerprint(training.engine.model, training.adapter) != others:
        raise TrainingError("a parameter of another adapter or of the base moved", where=where)


def _summary(steps: int, totals: Mapping[str, float]) -> TrainingSummary:
    return TrainingSummary(
        steps=steps,
        trained_tokens=int(totals["trained_tokens"]),
        example_tokens=int(totals["example_tokens"]),
        routing_tokens=int(totals["routing_tokens"]),
        groups=int(totals["groups"]),
        skipped_groups=int(totals["skipped_groups"]),
        invalid_rewards=int(totals["invalid_rewards"]),
        first_reward=totals["first_reward"],
        last_reward=totals["last_reward"],
    )
