"""Pretrains the nano base from scratch and writes it to models/nano.

Invariant: the files of the base appear under their names all together at the end, after a run
whose every step was finite; a killed run leaves the shipped base as it was.

    python -m models.nano.recipe.pretrain [--out DIR] [--steps N] [--seed S]
"""

import argparse
import math
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from macaron.errors import TrainingError
from macaron.hcp.document import load_hcp
from models.nano.recipe.corpus import Example, batches, encode, exchange, texts
from models.nano.recipe.optimizer import MuonAdamW, clip_, share_of_peak
from models.nano.recipe.tokenizer import MAX_POSITIONS, VOCABULARY, train_tokenizer

ROOT = Path(__file__).parents[3]
HCP_FILE = ROOT / "contracts/hcp/nano.toml"
SHIPPED = Path(__file__).parents[1]


@dataclass(frozen=True)
class Recipe:
    """Everything that the weights follow from, besides the environments."""

    seed: int = 1
    steps: int = 3000
    batch: int = 64
    """Examples a step, over all processes."""
    processes: int = 2
    micro: int = 16
    """Examples of about one length that go through the model together."""
    lr: float = 1e-2
    warmup: int = 60
    flat: float = 0.45
    final: float = 0.02
    clip: float = 1.0
    tokenizer_texts: int = 20_000
    """Exchanges that the merges are learned from."""


def architecture() -> Any:
    """The model's configuration: Qwen3, 1.7 million parameters."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )


def pretrain(recipe: Recipe, out: Path) -> None:
    """Trains in `recipe.processes` single-thread processes and writes the base to `out`."""
    from torch.multiprocessing.spawn import spawn

    # Returning freed memory to the system and faulting it in again took a third of a step.
    os.environ.update(MALLOC_TRIM_THRESHOLD_="4294967296", MALLOC_MMAP_THRESHOLD_="1073741824")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".base.") as scratch:
        folder = Path(scratch)
        words = texts(load_hcp(HCP_FILE), recipe.seed, recipe.tokenizer_texts)
        train_tokenizer(words).save_pretrained(folder)
        print(f"tokenizer: {VOCABULARY} tokens", flush=True)
        spawn(_worker, (recipe, folder), recipe.processes)  # type: ignore[no-untyped-call]
        for file in sorted(folder.iterdir()):
            if file.is_file() and file.name != "rendezvous":
                file.chmod(0o644)
                file.replace(out / file.name)


def _worker(rank: int, recipe: Recipe, folder: Path) -> None:
    import torch
    import torch.distributed as dist
    from transformers import AutoTokenizer, Qwen3ForCausalLM

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=recipe.processes,
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(recipe.seed)
    # Flash attention's backward is slower than plain matrix products at these lengths.
    model = Qwen3ForCausalLM._from_config(architecture(), attn_implementation="eager")
    _train(model, tokenizer, recipe, rank)
    if rank == 0:
        model.save_pretrained(folder)
    dist.destroy_process_group()


def _train(model: Any, tokenizer: Any, recipe: Recipe, rank: int) -> None:
    optimizer = MuonAdamW(model, recipe.lr)
    hcp = load_hcp(HCP_FILE)
    launcher, began, seen = os.getppid(), time.monotonic(), 0.0
    for step in range(recipe.steps):
        if os.getppid() != launcher:
            raise TrainingError("the launcher is gone", where=f"pretraining step {step}")
        first = step * recipe.batch
        mine = range(first + rank, first + recipe.batch, recipe.processes)
        examples = [encode(tokenizer, hcp, exchange(recipe.seed, number)) for number in mine]
        loss, tokens = _gradients(model, examples, recipe.micro, tokenizer.pad_token_id)
        norm = clip_([p.grad for p in model.parameters()], recipe.clip)
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise TrainingError(f"loss {loss}, gradient {norm}", where=f"pretraining step {step}")
        optimizer.step(share_of_peak(step, recipe.steps, recipe.warmup, recipe.flat, recipe.final))
        seen += tokens
        if rank == 0 and (step % 50 == 0 or step == recipe.steps - 1):
            spent = time.monotonic() - began
            left = spent / (step + 1) * (recipe.steps - step - 1)
            print(
                f"step {step + 1}/{recipe.steps}  loss {loss:.4f}  gradient {norm:.2f}  "
                f"{seen / 1e6:.2f}M tokens  {spent:.0f} s, {left:.0f} s left",
                flush=True,
            )


def _gradients(model: Any, examples: list[Example], micro: int, pad: int) -> tuple[float, float]:
    """Leaves the mean weighted loss's gradient over all processes; gives (loss, tokens)."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F  # noqa: N812

    totals = torch.zeros(3)
    for ids, weights in batches(examples, micro, pad):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        losses = F.cross_entropy(
            logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
        )
        loss = (losses * weights[:, 1:].flatten()).sum()
        loss.backward()
        totals += torch.stack([loss.detach(), weights.sum(), (weights > 0).sum().float()])
    gradients = [p.grad for p in model.parameters()]
    flat: Any = torch.cat([totals, *(g.flatten() for g in gradients)])
    dist.all_reduce(flat)
    weight = flat[1].clone()
    parts = (flat[3:] / weight).split([g.numel() for g in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))
    return float(flat[0] / weight), float(flat[2])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    arguments = parser.parse_args()
    recipe = replace(Recipe(), steps=arguments.steps, seed=arguments.seed)
    pretrain(recipe, arguments.out)


if __name__ == "__main__":
    main()
