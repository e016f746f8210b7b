"""What a model allows, measured on the model: whether rows can share passes, and in which way.

A short mixed batch is read in parts and compared with the model's own logits of each whole row.
"""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache

from macaron.engines.base import SampleParams
from macaron.engines.cache import plain_layers
from macaron.engines.continuous.bank import Bank
from macaron.engines.continuous.feed import decode_feed, prefill_feed
from macaron.engines.continuous.group import Parts
from macaron.engines.continuous.lean_passes import LeanPasses
from macaron.engines.continuous.passes import ModelPasses, Passes
from macaron.engines.continuous.row import Sampling, sampling
from macaron.engines.continuous.slots import CacheShape, Slots
from macaron.engines.local import TOLERANCE

log = logging.getLogger("macaron.engines")

LOOSE = 0.1
"""The tolerance where the base is kept in 16 bits."""
LENGTHS = (21, 3, 9, 14)
PROBES = ("probe one", "probe two")


def cache_shape(causal: Any, window: int) -> CacheShape | None:
    """What a token takes in the cache; None where layers differ or keep no plain cache."""
    if not plain_layers(causal.config, window):
        return None
    cache = DynamicCache(config=causal.config)
    with torch.no_grad():
        causal(input_ids=torch.tensor([[0, 1]]), cache=cache, use_cache=True)
    try:
        shapes = {(tuple(x.keys.shape), tuple(x.values.shape)) for x in cache.layers}
    except AttributeError:
        return None
    if len(shapes) != 1:
        return None
    [((_, heads, _, key_width), (_, _, _, value_width))] = shapes
    return CacheShape(len(cache.layers), heads, key_width, value_width, causal.dtype)


def dense(causal: Any, layers: dict[str, nn.Linear]) -> bool:
    """Whether every matrix within the layers is one that `layers` knows.

    Else an adapter may change something that rows of different adapters cannot share, such as
    experts.
    """
    known = {id(layer.weight) for layer in layers.values()}
    for module in (causal.get_input_embeddings(), causal.get_output_embeddings()):
        known |= {id(p) for p in module.parameters()}
    return all(id(p) in known for p in causal.parameters() if p.dim() > 1)


@torch.no_grad()
def choose_passes(causal: Any, bank: Bank, shape: CacheShape, lean: bool) -> Passes | None:
    """The fastest passes that give the model's own log-probabilities; None where none do.

    Args:
        bank: installed in the model.
        lean: whether the bank's groups are those of the lean passes.
    """
    prompts = _prompts(causal)
    bare = _own(causal, prompts)
    passes: Passes = ModelPasses(causal, bank)
    if not _agree("model", bare, _measure(passes, bank, shape, prompts, (None,)), shape):
        return None
    if not lean:
        return passes
    for seed, name in enumerate(PROBES):
        bank.add(name, _random(bank, seed))
    owners = (PROBES[1], None, *PROBES)
    mixed = _measure(passes, bank, shape, prompts, owners)
    if mixed is not None:
        quick = LeanPasses(causal, bank)
        if _agree("lean", mixed, _measure(quick, bank, shape, prompts, owners), shape):
            passes = quick
    for name in PROBES:
        bank.remove(name)
    return passes


def _prompts(causal: Any) -> list[list[int]]:
    top = causal.config.get_text_config().vocab_size
    return [[(7 * i + i * i + n) % top for i in range(n)] for n in LENGTHS]


def _own(causal: Any, prompts: Sequence[Sequence[int]]) -> Tensor:
    """The model's log-probabilities after all but the last token and after all, one by one."""
    found = [causal(input_ids=torch.tensor([p]), use_cache=False).logits[0, -2:] for p in prompts]
    return torch.stack(found, 1).float().log_softmax(-1)


def _measure(
    passes: Passes,
    bank: Bank,
    shape: CacheShape,
    prompts: Sequence[Sequence[int]],
    adapters: Sequence[str | None],
) -> Tensor | None:
    """The same by passes over a mixed batch; None where they cannot be made."""
    slots = Slots(shape)
    slots.reserve(len(prompts), max(map(len, prompts)))
    rows = [
        _row(prompt, adapters[place % len(adapters)], place) for place, prompt in enumerate(prompts)
    ]
    last = torch.empty(0)
    try:
        while left := [row for row in rows if row.left]:
            tokens = max(1, min(row.left for row in left))
            last = _read(passes, bank, slots, rows, left, tokens, last)
        for row, prompt in zip(rows, prompts, strict=True):
            row.tokens.append(prompt[-1])
        after = passes.logits(decode_feed(rows, slots, bank))
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        log.info("%s: not for this model: %s", type(passes).__name__, error)
        return None
    return torch.stack([last, after]).float().log_softmax(-1)


def _read(
    passes: Passes,
    bank: Bank,
    slots: Slots,
    rows: list[Sampling],
    left: list[Sampling],
    tokens: int,
    last: Tensor,
) -> Tensor:
    """One pass over the rows that are left; the logits after each row's end so far."""
    slots.reserve(0, max(row.filled for row in left) + tokens)
    logits = passes.logits(prefill_feed(left, tokens, slots, bank))
    if not len(last):
        last = logits.new_zeros(len(rows), logits.shape[-1])
    ended = [row for row in left if row.left <= tokens]
    for row, found in zip(ended, logits, strict=True):
        last[row.slot] = found
    for row in left:
        row.filled += min(tokens, row.left)
    return last


def _row(prompt: Sequence[int], adapter: str | None, slot: int) -> Sampling:
    row = sampling(prompt[:-1], adapter, SampleParams(1), _Nowhere())
    row.slot = slot
    return row


class _Nowhere:
    """Nobody waits for a probe."""

    def push(self, tokens: list[int], cached: int) -> None: ...
    def finish(self, result: Any) -> None: ...
    def fail(self, error: Exception) -> None: ...


def _random(bank: Bank, seed: int) -> Parts:
    """An adapter that changes what every layer gives."""
    generator = np.random.default_rng(seed)

    def part(*shape: int) -> Tensor:
        return torch.from_numpy(generator.normal(0, 0.05, shape)).float()

    return {
        name: (part(2, group.low.shape[2]), part(size, 2))
        for group in bank.groups
        for name, size in zip(group.names, group.sizes, strict=True)
    }


def _agree(what: str, wanted: Tensor, found: Tensor | None, shape: CacheShape) -> bool:
    if found is None:
        return False
    apart = float((wanted - found).abs().max())
    log.info("%s passes: within %.2g of the model's own log-probabilities", what, apart)
    return apart <= (TOLERANCE if shape.dtype == torch.float32 else LOOSE)
