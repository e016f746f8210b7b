"""One rank's trainer: the specialists of a job, in turn, on one resident base.

A specialist's result is written last, by rank 0, after its adapter was proved to have landed.
Every rank takes the same decisions, since each takes them from the same files.
"""

import os
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macaron.errors import NothingTrainedError
from macaron.files import digest_tree
from macaron.hcp.document import HCP, load_hcp
from macaron.mint import probe as probes
from macaron.mint.dataset import Dataset, build
from macaron.mint.events import Events
from macaron.mint.job import SpecialistJob, TrainingJob
from macaron.mint.layout import Layout, adapter_layout
from macaron.mint.result import ADAPTER, CHECKPOINT, PROBE, Result, load_result, write_result
from macaron.mint.revision import check_landed, check_parent, keep_parent, save_adapter

if TYPE_CHECKING:
    from macaron.engines.local import LocalEngine
    from macaron.learner.backend import Backend
    from macaron.learner.data import SpecialistData


@dataclass(frozen=True)
class Trainer:
    """What all specialists of a job share: the base, the ranks, the harness."""

    job: TrainingJob
    events: Events
    backend: "Backend"
    engine: "LocalEngine"
    tokenizer: Any
    hcp: HCP
    layout: Layout

    @classmethod
    def start(cls, job: TrainingJob, events: Events, backend: "Backend") -> "Trainer":
        """Loads the base."""
        from transformers import AutoTokenizer

        from macaron.engines.local import load_local

        base, threads = Path(job.base), int(os.environ.get("OMP_NUM_THREADS", "1"))
        return cls(
            job=job,
            events=events,
            backend=backend,
            engine=load_local(base, {}, threads=threads, dtype=job.dtype),
            tokenizer=AutoTokenizer.from_pretrained(base),
            hcp=load_hcp(Path(job.hcp)),
            layout=adapter_layout(base, job.lora),
        )

    def train(self, specialist: SpecialistJob) -> str:
        """Trains one specialist, unless it is finished; the revision.

        Raises:
            TrainingError: training stopped, or its adapter did not land.
        """
        from macaron.learner.checkpoint import STATE

        key = specialist.specialist
        found = load_result(self.job, specialist)
        if found is not None:
            self.events.emit("skipped", specialist=key, revision=found.revision)
            return found.revision
        names = [s.specialist for s in self.job.specialists]
        checkpoint = self._checkpoint(specialist)
        self.events.emit(
            "specialist",
            specialist=key,
            index=names.index(key) + 1,
            of=len(names),
            resumed=(checkpoint / STATE).exists(),
        )
        result = self._train(specialist, self._load(specialist), checkpoint)
        self.events.emit(
            "landed", **result.model_dump(include={"specialist", "revision", "moved", "seconds"})
        )
        return result.revision

    def _load(self, specialist: SpecialistJob) -> str:
        """Puts the parent and a copy to train on the engine; the parent's name there."""
        key, lora = specialist.specialist, self.job.lora
        parent, folder = f"{key}-parent", specialist.parent.checked()
        check_parent(folder, self.layout)
        self.engine.load(parent, folder)
        self.engine.create(key, lora.rank, lora.alpha, seed=0, source=parent)
        return parent

    def _train(self, specialist: SpecialistJob, parent: str, checkpoint: Path) -> Result:
        key, started = specialist.specialist, time.perf_counter()
        folder = self.job.folder(key)
        dataset = build(specialist, self.hcp, self.tokenizer, other_hcp=self.job.other_hcp)
        texts = probes.choose(dataset.data.prompts, dataset.references)
        before = probes.measure(self.engine, parent, texts)
        summary, moved = self._learn(key, dataset, checkpoint)
        revision = self._save(specialist, folder / ADAPTER, moved)
        if moved:
            trained = probes.measure(self.engine, key, texts)
            self._prove(folder / PROBE, revision, specialist.parent.digest, texts, trained, before)
        result = Result(
            specialist=key,
            inputs=self.job.inputs_digest(specialist),
            revision=revision,
            moved=moved,
            folder=str(folder),
            summary=summary,
            seconds=round(time.perf_counter() - started, 3),
        )
        if self.backend.rank == 0:
            write_result(result)
            shutil.rmtree(checkpoint.parent, ignore_errors=True)
        self.backend.wait()
        return result

    def _learn(self, key: str, dataset: Dataset, checkpoint: Path) -> tuple[dict[str, Any], bool]:
        """The learner's summary, and whether it trained on anything at all."""
        from macaron.learner.trainer import train_specialist

        try:
            summary = train_specialist(
                self.engine,
                key,
                self._data(key, dataset),
                self.job.grpo,
                specialist=key,
                seed=self.job.seed,
                backend=self.backend,
                checkpoint=checkpoint,
                on_step=lambda metrics: self.events.emit("step", specialist=key, **metrics),
            )
        except NothingTrainedError as nothing:
            tokens = dict.fromkeys(("trained_tokens", "example_tokens", "routing_tokens"), 0)
            return {"steps": self.job.grpo.steps, **tokens, "why": nothing.what}, False
        return asdict(summary), True

    def _data(self, key: str, dataset: Dataset) -> "SpecialistData":
        """The specialist's data, played by its runtime where an answer takes whole episodes."""
        from macaron.mint.player import needs_episodes, player, training_runtime

        if not needs_episodes(self.hcp, key, dataset.tasks):
            return dataset.data
        runtime = training_runtime(
            self.engine, self.tokenizer, self.hcp, key, Path(self.job.hcp).parent
        )
        play = player(runtime, dataset.tasks, self.job.grpo.temperature)
        return replace(dataset.data, play=play)

    def _save(self, specialist: SpecialistJob, folder: Path, moved: bool) -> str:
        """Puts the adapter in its folder and proves that it is there; its revision."""
        parent, first = Path(specialist.parent.path), self.backend.rank == 0
        if moved:
            save_adapter(self.engine.model, specialist.specialist, self.layout, folder, first)
        if first and moved:
            check_landed(folder, parent, self.layout)
        elif first:
            keep_parent(parent, folder)
        self.backend.wait()
        return digest_tree(folder)

    def _prove(
        self, path: Path, revision: str, parent: str, texts: probes.Texts,
        trained: tuple[float, ...], before: tuple[float, ...],
    ) -> None:  # fmt: skip
        proof = probes.Probe(
            revision=revision, parent=parent, texts=texts, trained=trained, before=before
        )
        probes.compare(proof, trained)
        if self.backend.rank == 0:
            probes.write_probe(proof, path)

    def _checkpoint(self, specialist: SpecialistJob) -> Path:
        """Named by the inputs, so that another training's checkpoint is never met here."""
        folder = self.job.folder(specialist.specialist) / CHECKPOINT
        return folder / self.job.inputs_digest(specialist)[:16]
