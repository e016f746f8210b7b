"""A LoRA adapter on the nano base for one surface, from demonstrations of a scripted policy.

Supervised: every token that the policy wrote is a target, every other one is context. Only tasks of
the train split are demonstrated.
"""

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.errors import TrainingError
from macaron.harness.turn import Turn
from macaron.learner.memory import keep_freed_memory


@dataclass(frozen=True)
class Recipe:
    """How an adapter is trained."""

    steps: int = 250
    batch: int = 4
    lr: float = 8e-3
    warmup: int = 10
    rank: int = 16
    alpha: int = 32
    clip: float = 1.0
    seed: int = 1


def distinct(base: Path, out: Path, seed: int = 0) -> int:
    """The base with vectors of their own for the tokens that its pretraining never met.

    Those all drifted to one vector, so that no adapter on the layers between could tell a backtick
    from an underscore. They get random ones of the other rows' mean length; nothing else changes.

    Returns:
        How many tokens those are.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base)
    rows = model.get_input_embeddings().weight
    with torch.no_grad():
        unit = torch.nn.functional.normalize(rows, dim=1)
        # Of a byte that stands in no text.
        [never] = tokenizer.encode("\x02", add_special_tokens=False)
        unmet = unit @ unit[never] > 0.9
        fresh = torch.randn(rows.shape, generator=torch.Generator().manual_seed(seed))
        length = rows[~unmet].norm(dim=1).mean()
        rows[unmet] = torch.nn.functional.normalize(fresh, dim=1)[unmet] * length
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return int(unmet.sum())


def train(base: Path, turns: Sequence[Turn], recipe: Recipe, out: Path) -> float:
    """Trains an adapter on the turns' sampled tokens and saves it as PEFT does.

    Returns:
        The mean loss of the last tenth of the steps, nats a token.

    Raises:
        TrainingError: a loss is not finite.
    """
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    model = AutoModelForCausalLM.from_pretrained(base, attn_implementation="sdpa")
    model = get_peft_model(
        model,
        LoraConfig(r=recipe.rank, lora_alpha=recipe.alpha, target_modules="all-linear"),
    )
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=recipe.lr, weight_decay=0.0)
    losses: list[float] = []
    began = time.monotonic()
    for step, chosen in enumerate(_batches(turns, recipe)):
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * _share(step, recipe)
        loss = _loss(model, chosen)
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise TrainingError(f"the loss is {losses[-1]}", where=f"step {step + 1}")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 20 == 0:
            spent = time.monotonic() - began
            done = f"step {step + 1}/{recipe.steps}"
            print(f"  {done}  loss {losses[-1]:.4f}  {spent:.0f} s", flush=True)
    model.save_pretrained(str(out))
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail)


def _share(step: int, recipe: Recipe) -> float:
    """Of the learning rate: up over the warm-up, then down along a cosine."""
    if step < recipe.warmup:
        return (step + 1) / recipe.warmup
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return 0.5 * (1 + math.cos(math.pi * done))


def _batches(turns: Sequence[Turn], recipe: Recipe) -> Iterator[list[Turn]]:
    rng, order = random.Random(recipe.seed), list[int]()
    for _ in range(recipe.steps):
        while len(order) < recipe.batch:
            order += rng.sample(range(len(turns)), len(turns))
        yield [turns[i] for i in order[: recipe.batch]]
        del order[: recipe.batch]


def _loss(model: Any, turns: Sequence[Turn]) -> Any:
    """Mean cross-entropy of the sampled tokens, each given all before it."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    longest = max(len(turn.token_ids) for turn in turns)
    ids = torch.zeros(len(turns), longest, dtype=torch.long)
    targets = torch.full((len(turns), longest), -100)
    for row, turn in enumerate(turns):
        found, mask = torch.tensor(turn.token_ids), torch.tensor(turn.loss_mask)
        ids[row, : len(found)] = found
        targets[row, : len(found)] = found.where(mask, torch.tensor(-100))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        # Padding stands on the right, where no target can see it.
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.float().flatten(0, 1), targets[:, 1:].flatten())
