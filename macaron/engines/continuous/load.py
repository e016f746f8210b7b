"""A base folder becomes an engine: what the model allows is measured, and the best way taken."""

import logging
from pathlib import Path
from typing import Any

import torch

from macaron.engines import attention
from macaron.engines.continuous.bank import Bank
from macaron.engines.continuous.engine import ContinuousEngine
from macaron.engines.continuous.llama import group, llama_like
from macaron.engines.continuous.memory import give_back
from macaron.engines.continuous.passes import Passes
from macaron.engines.continuous.prefix import PrefixCache
from macaron.engines.continuous.probe import cache_shape, choose_passes, dense
from macaron.engines.continuous.progress import Progress
from macaron.engines.continuous.scheduler import Limits, Scheduler
from macaron.engines.continuous.serial import Serial
from macaron.engines.continuous.slots import CacheShape, Slots
from macaron.engines.continuous.thread import Worker
from macaron.engines.continuous.weights import adapted_layers, read_adapter
from macaron.engines.local import LocalEngine, load_model

log = logging.getLogger("macaron.engines")

CACHE_BYTES = 256 * 2**20


def load_streaming(
    base: Path,
    *,
    threads: int = 1,
    dtype: str = "float32",
    rows: int = 64,
    cache_bytes: int = CACHE_BYTES,
    row_bytes: int = Limits.row_bytes,
    queue: int = 256,
    window: int | None = None,
    lean: bool = True,
) -> ContinuousEngine:
    """The base in a folder, resident, without adapters.

    Args:
        base: as saved by transformers, weights in safetensors.
        threads: of torch, in this process.
        dtype: "float32" or "bfloat16".
        rows: the most responses in one forward pass.
        cache_bytes: the most that the prefix cache holds.
        row_bytes: the most that keys and values of running responses take.
        queue: the most responses that wait for room.
        window: the most tokens of a prompt with its response; None: the model's own.
        lean: whether the lean passes may stand in for the model's own modules.

    Raises:
        ConfigError: the folder holds no causal LM.
    """
    torch.set_num_threads(threads)
    return stream(
        load_model(base, dtype),
        threads=threads,
        limits=Limits(rows=rows, row_bytes=row_bytes),
        cache_bytes=cache_bytes,
        queue=queue,
        window=window,
        lean=lean,
    )


def stream(
    causal: Any,
    *,
    threads: int = 1,
    limits: Limits | None = None,
    cache_bytes: int = CACHE_BYTES,
    queue: int = 256,
    window: int | None = None,
    lean: bool = True,
) -> ContinuousEngine:
    """An engine over a transformers causal LM, which it changes and from now on owns."""
    limits = limits or Limits()
    text = causal.config.get_text_config()
    window = window or getattr(text, "max_position_embeddings", None) or 4096
    worker = _worker(causal.requires_grad_(False).eval(), limits, cache_bytes, window, lean)
    give_back()
    return ContinuousEngine(worker, window=window, limit=limits.rows + queue, threads=threads)


def _worker(causal: Any, limits: Limits, cache_bytes: int, window: int, lean: bool) -> Worker:
    layers = adapted_layers(causal)
    shape = cache_shape(causal, window) if dense(causal, layers) else None
    if shape is not None:
        lean = lean and llama_like(causal, layers)
        passes, bank = _passes(causal, shape, lean)
        if passes is not None:
            shapes = {n: (x.out_features, x.in_features) for n, x in layers.items()}
            slots, cache = Slots(shape, limits.row_bytes), PrefixCache(cache_bytes)
            progress = Progress(passes, bank, slots, cache, limits.chunk)
            return Scheduler(progress, limits, lambda folder: read_adapter(folder, shapes))
        bank.uninstall(layers)
    log.warning(
        "this model's rows cannot share passes: requests run one adapter at a time, "
        "without continuous batching or a prefix cache"
    )
    pad = causal.config.get_text_config().pad_token_id
    return Serial(LocalEngine(causal, pad_id=pad or 0, batch=limits.rows))


def _passes(causal: Any, shape: CacheShape, lean: bool) -> tuple[Passes | None, Bank]:
    layers = adapted_layers(causal)
    causal.set_attn_implementation(attention.register())
    bank = Bank(group(causal, layers, lean))
    bank.install(layers)
    return choose_passes(causal, bank, shape, lean), bank
