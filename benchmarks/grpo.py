"""Our GRPO against TRL's GRPOTrainer: CPU-seconds a step, and held-out success after training.

    python -m benchmarks.grpo [--quick] [--family coding] [--steps 20] [--items 400] [--seed 1]

Both train in this run with the same base, prompts, number of rollouts, rewards, LoRA shape,
optimizer, learning rates and clip; no KL. Each samples for itself. They take turns, a step each,
single-threaded in a process of their own, so that whatever else the machine does falls on both.
CPU-seconds are those of a trainer's process and its sandbox; the first step is left out as
warm-up. Success is greedy, on sealed items that neither has seen.
"""

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from typing import Any

# Before torch starts its threads.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PYTHONWARNINGS"] = "ignore"

import psutil

from benchmarks._report import metric
from macaron.environments import environments, verify
from macaron.environments.base import Environment, Task
from macaron.harness.prompts import answer_prompt, answer_text
from macaron.hcp.document import HCP, load_hcp
from macaron.learner.data import SpecialistData
from macaron.learner.schedule import learning_rate
from macaron.profile import Profile, load_profile

HOUSE = Path(__file__).parents[1]
MARGIN_POINTS = 5.0
"""Contract v1's non-inferiority margin."""


@dataclass(frozen=True)
class Setting:
    """What both trainers are given."""

    base: Path
    tokenizer: Any
    hcp: HCP
    profile: Profile
    environment: Environment
    tasks: Sequence[Task]
    seed: int

    @property
    def specialist(self) -> str:
        """Who learns."""
        return self.environment.specialist

    def prompts(self, tasks: Sequence[Task]) -> list[list[int]]:
        """The tasks' prompts as token ids."""
        return [answer_prompt(self.tokenizer, self.hcp, self.specialist, t.messages) for t in tasks]

    def rewards(self, tasks: Sequence[Task], answers: Sequence[Sequence[int]]) -> list[Any]:
        """The verifier's rewards."""
        texts = [answer_text(self.tokenizer, ids) for ids in answers]
        return [score.reward for score in verify(tasks, texts)]


def cpu_seconds() -> float:
    """CPU time of this process, and of its children so far: the sandbox."""
    times = [p.cpu_times() for p in psutil.Process().children(recursive=True)]
    return time.process_time() + float(sum(t.user + t.system for t in times))


def train_ours(given: argparse.Namespace, pipe: Connection) -> None:
    """A process that trains with `train_specialist`, a step whenever it is told to.

    It sends the CPU-seconds of each step, then the adapter's tensors.
    """
    from macaron.engines.adapters import adapter_state
    from macaron.engines.local import load_local
    from macaron.learner.trainer import train_specialist

    setting = make_setting(given)
    lora = setting.profile.lora
    engine = load_local(setting.base, {}, threads=1)
    engine.create("learner", lora.rank, lora.alpha, seed=setting.seed)
    data = SpecialistData(
        prompts=setting.prompts(setting.tasks),
        score=lambda places, answers: setting.rewards([setting.tasks[p] for p in places], answers),
        max_tokens=setting.hcp.specialists[setting.specialist].max_tokens,
        stop_ids=(setting.tokenizer.eos_token_id,),
    )
    started = [0.0]

    def wait_for_turn(seconds: float | None) -> None:
        pipe.send(seconds)
        pipe.recv()
        started[0] = cpu_seconds()

    wait_for_turn(None)
    train_specialist(
        engine,
        "learner",
        data,
        setting.profile.grpo,
        specialist=setting.specialist,
        seed=setting.seed,
        on_step=lambda _: wait_for_turn(cpu_seconds() - started[0]),
    )
    pipe.send({k: v.numpy() for k, v in adapter_state(engine.model, "learner").items()})


def train_trl(setting: Setting, after_step: Callable[[], None]) -> dict[str, Any]:
    """Trains with TRL; the adapter's tensors."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig, get_peft_model_state_dict
    from transformers import AutoModelForCausalLM, TrainerCallback
    from trl import GRPOTrainer

    class Ticker(TrainerCallback):  # type: ignore[misc]
        """Tells of each step's end."""

        def on_step_end(self, *_: Any, **__: Any) -> None:
            """A step has ended."""
            after_step()

    def reward(
        completion_ids: Sequence[Sequence[int]], place: Sequence[int], **_: Any
    ) -> list[Any]:
        return setting.rewards([setting.tasks[p] for p in place], completion_ids)

    lora = setting.profile.lora
    texts = [setting.tokenizer.decode(ids) for ids in setting.prompts(setting.tasks)]
    _check_texts(setting, texts)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(setting.base, dtype=torch.float32),
            reward_funcs=reward,
            args=_trl_arguments(setting, folder),
            train_dataset=Dataset.from_dict({"prompt": texts, "place": list(range(len(texts)))}),
            processing_class=setting.tokenizer,
            peft_config=LoraConfig(
                r=lora.rank, lora_alpha=lora.alpha, target_modules="all-linear", lora_dropout=0.0
            ),
            callbacks=[Ticker()],
        )
        trainer.create_optimizer = _same_optimizer(trainer, setting)
        trainer.train()
    return dict(get_peft_model_state_dict(trainer.model))


@dataclass(frozen=True)
class Outcome:
    """What one trainer made, and the CPU-seconds of each of its steps."""

    adapter: dict[str, Any]
    seconds: Sequence[float]

    @property
    def mean(self) -> float:
        """CPU-seconds a step, without the first."""
        return fmean(self.seconds[1:])


def train_both(given: argparse.Namespace, setting: Setting) -> tuple[Outcome, Outcome]:
    """Ours and TRL's, a step each in turn, each in a process of its own."""
    import torch

    pipe, theirs = multiprocessing.get_context("spawn").Pipe()
    child = multiprocessing.get_context("spawn").Process(target=train_ours, args=(given, theirs))
    child.start()
    theirs.close()
    pipe.recv()
    ours: list[float] = []
    trl: list[float] = []
    started = [cpu_seconds()]

    def after_step() -> None:
        trl.append(cpu_seconds() - started[0])
        pipe.send("your turn")
        ours.append(pipe.recv())
        started[0] = cpu_seconds()

    adapter = train_trl(setting, after_step)
    pipe.send("the end")
    made = {name: torch.from_numpy(values) for name, values in pipe.recv().items()}
    child.join()
    return Outcome(made, ours), Outcome(adapter, trl)


def _check_texts(setting: Setting, texts: Sequence[str]) -> None:
    """TRL tokenises text; it must see the very prompts that we do."""
    seen = setting.tokenizer(text=list(texts))["input_ids"]
    if seen != setting.prompts(setting.tasks):
        raise SystemExit("TRL would be given other prompts: the tokenizer does not round-trip")


def _trl_arguments(setting: Setting, folder: str) -> Any:
    from trl import GRPOConfig

    config = setting.profile.grpo
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        max_steps=config.steps,
        per_device_train_batch_size=config.prompts * config.group,
        num_generations=config.group,
        max_completion_length=setting.hcp.specialists[setting.specialist].max_tokens,
        temperature=config.temperature,
        epsilon=config.clip,
        beta=0.0,
        learning_rate=config.lr,
        max_grad_norm=config.max_grad_norm,
        weight_decay=0.0,
        shuffle_dataset=False,
        seed=setting.seed,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )


def _same_optimizer(trainer: Any, setting: Setting) -> Callable[..., Any]:
    """AdamW and the learning rate of each step exactly as ours."""
    import torch

    config = setting.profile.grpo

    def create(*_: Any, **__: Any) -> Any:
        trained = [p for p in trainer.model.parameters() if p.requires_grad]
        trainer.optimizer = torch.optim.AdamW(trained, lr=config.lr, weight_decay=0.0, fused=True)
        trainer.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            trainer.optimizer, lambda step: learning_rate(config, step) / config.lr
        )
        return trainer.optimizer

    return create


def success(setting: Setting, items: int, adapter: dict[str, Any] | None) -> float:
    """Greedy success on fresh sealed items, in percent; None is the bare base."""
    from macaron.engines.adapters import assign_adapter
    from macaron.engines.base import SampleParams
    from macaron.engines.local import load_local

    rng = random.Random(f"sealed {setting.seed}")
    tasks = [setting.environment.sample(rng, "sealed") for _ in range(items)]
    engine = load_local(setting.base, {}, threads=1)
    if adapter is not None:
        lora = setting.profile.lora
        engine.create("judged", lora.rank, lora.alpha, seed=0)
        assign_adapter(engine.model, "judged", adapter)
    params = SampleParams(
        max_tokens=setting.hcp.specialists[setting.specialist].max_tokens,
        temperature=0.0,
        stop_ids=(setting.tokenizer.eos_token_id,),
    )
    found = engine.sample(setting.prompts(tasks), "judged" if adapter else None, params)
    rewards = setting.rewards(tasks, [row[0].token_ids for row in found])
    return 100 * fmean(r or 0.0 for r in rewards)


def make_setting(given: argparse.Namespace) -> Setting:
    """The shipped base, harness and profile."""
    import transformers
    from transformers import AutoTokenizer

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    steps, seed = given.steps, given.seed
    profile = load_profile(HOUSE / "models/profiles/nano.toml")
    grpo = profile.grpo.model_copy(update={"steps": steps, "routing_batch": 0})
    base, environment = HOUSE / profile.base, environments()[given.family]
    rng = random.Random(f"train {seed}")
    return Setting(
        base=base,
        tokenizer=AutoTokenizer.from_pretrained(base),
        hcp=load_hcp(HOUSE / "contracts/hcp/nano.toml"),
        profile=profile.model_copy(update={"grpo": grpo}),
        environment=environment,
        tasks=[environment.sample(rng, "train") for _ in range(steps * grpo.prompts)],
        seed=seed,
    )


def main() -> None:
    """Trains with both and prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4 steps and 200 items: under 50 s")
    parser.add_argument("--family", default="coding", help="chat, agent, coding or genui")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--items", type=int, default=400, help="sealed items")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.quick:
        given.steps, given.items = 4, 200
    setting = make_setting(given)
    before = success(setting, given.items, None)
    ours, trl = train_both(given, setting)
    after, theirs = (success(setting, given.items, made.adapter) for made in (ours, trl))
    metric("grpo_cpu_seconds_per_step", ours.mean, "s")
    metric("trl_cpu_seconds_per_step", trl.mean, "s")
    metric("grpo_speedup", trl.mean / ours.mean, "x", ">=", 5.0)
    metric("success_before", before, "percent")
    metric("grpo_success", after, "percent")
    metric("trl_success", theirs, "percent")
    metric("grpo_success_gain", after - theirs, "points_over_trl", ">=", -MARGIN_POINTS)


if __name__ == "__main__":
    main()
