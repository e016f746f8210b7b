"""The local engine: any transformers causal LM with several LoRAs on one resident base.

What it samples from is what the learner trains: the same modules, the same arithmetic type.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macaron.engines import adapters, attention, lora
from macaron.engines.base import Completion, SampleParams
from macaron.engines.decode import Decode, pad
from macaron.engines.lean import LeanDecoder, fits
from macaron.engines.randomness import uniforms
from macaron.engines.sampler import Tape, choose, families
from macaron.errors import ConfigError

log = logging.getLogger("macaron.engines")

TOLERANCE = 1e-4
"""Largest difference of a log-probability between two ways to compute it, fp32."""


class LocalEngine:
    """An engine over a resident model. Not for use by two threads at once."""

    def __init__(self, model: Any, pad_id: int, batch: int, lean: bool = True) -> None:
        """
        Args:
            model: a transformers causal LM, or a PeftModel around one with its adapters loaded.
            pad_id: any token id; it fills rows and is never seen.
            batch: the most rows in one forward pass.
            lean: whether the lean decoder may stand in for the model's own modules.
        """
        self.pad_id, self.batch, self._may_lean = pad_id, batch, lean
        self.model = model
        self._prepare()

    def _prepare(self) -> None:
        get_base = getattr(self.model, "get_base_model", None)
        self.causal = get_base() if get_base else self.model
        self.model.requires_grad_(False).eval()
        lora.install(self.model)
        self._layers = list(adapters.lora_layers(self.model))
        self.adapters = adapters.adapter_names(self.model)
        """Names of the adapters that are loaded."""
        self.lean: LeanDecoder | None = None
        """Of the adapter in force, within `passes`."""
        self._within: tuple[str | None, LeanDecoder | None] | None = None
        self._lean_is_exact: bool | None = None if self._may_lean else False

    def load(self, revision: str, folder: Path) -> None:
        """Loads an adapter revision beside the others.

        Raises:
            ConfigError: the name is taken.
            DigestError: the adapter doesn't fit the base.
        """
        self._free(revision)
        self.model = adapters.load_adapter(self.model, revision, folder)
        self._prepare()

    def create(
        self, adapter: str, rank: int, alpha: int, seed: int, source: str | None = None
    ) -> None:
        """Makes an adapter to train: fresh (its effect is zero), or a copy of `source`."""
        self._free(adapter)
        self.model = adapters.add_adapter(self.model, adapter, rank, alpha, seed, source)
        self._prepare()

    def delete(self, adapter: str) -> None:
        """Forgets an adapter."""
        self._known(adapter)
        self.model.delete_adapter(adapter)
        self._prepare()

    def _free(self, adapter: str) -> None:
        if adapter in self.adapters:
            raise ConfigError(
                f"an adapter is already loaded as {adapter!r}", mend="name it by its revision"
            )

    def _known(self, adapter: str | None) -> None:
        if adapter is not None and adapter not in self.adapters:
            raise ConfigError(
                f"no adapter {adapter!r} is loaded",
                where="local engine",
                mend=f"load it first; there are {sorted(self.adapters) or 'none'}",
            )

    def set_active(self, adapter: str | None) -> None:
        """Chooses the adapter of every later forward pass; requires_grad stays as it is."""
        self._known(adapter)
        adapters.set_active(self._layers, adapter)

    @contextmanager
    def passes(self, adapter: str | None) -> Iterator[None]:
        """Forward passes of one adapter, which must not change within the block.

        Blocks nest; one for the same adapter within another costs nothing.
        """
        outer = self._within
        if outer is not None and outer[0] == adapter:
            self.set_active(adapter)
            yield
            return
        self._enter(adapter)
        try:
            yield
        finally:
            self._within = outer
            self.lean = outer[1] if outer else None
            if outer:
                self.set_active(outer[0])

    def _enter(self, adapter: str | None) -> None:
        self.set_active(adapter)
        if self._lean_is_exact is None:
            self._lean_is_exact = self._measure_lean(adapter)
        self.lean = LeanDecoder(self.causal, adapter) if self._lean_is_exact else None
        self._within = adapter, self.lean

    @torch.no_grad()
    def _measure_lean(self, adapter: str | None) -> bool:
        """Whether the lean decoder gives this model's own log-probabilities."""
        if not fits(self.causal):
            return False
        top = self.causal.config.get_text_config().vocab_size
        prompts = [[(7 * i + i * i) % top for i in range(n)] for n in (3, 9)]
        found = []
        try:
            for lean in (None, LeanDecoder(self.causal, adapter)):
                rows, first = Decode.prefill(
                    self.causal, lean, prompts, self.pad_id, 1, len(prompts)
                )
                second = rows.forward(torch.tensor([[1 % top], [2 % top]]), keep=1)[:, 0]
                found.append(torch.stack([first, second]).log_softmax(-1))
        except (TypeError, ValueError, RuntimeError) as error:
            log.info("lean decoder: not for this model: %s", error)
            return False
        apart = float((found[0] - found[1]).abs().max())
        log.info("lean decoder: within %.2g of the model's own log-probabilities", apart)
        return apart <= TOLERANCE

    @torch.no_grad()
    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        adapter: str | None,
        params: SampleParams,
        n: int = 1,
        seeds: Sequence[int] | None = None,
        *,
        first: int = 0,
    ) -> list[list[Completion]]:
        """`n` responses to each prompt, as `Engine.sample`.

        Args:
            first: index that randomness gives the first prompt, so that a call for a part of the
                prompts samples what one call for all would.
        """
        if seeds is None:
            places = [(params.seed, first + p) for p in range(len(prompts))]
        else:
            places = [(seed, 0) for seed in seeds]
        with self.passes(adapter):
            return self._sample_all(prompts, params, n, places)

    def _sample_all(
        self,
        prompts: Sequence[Sequence[int]],
        params: SampleParams,
        n: int,
        places: Sequence[tuple[int, int]],
    ) -> list[list[Completion]]:
        done: dict[tuple[int, int], Completion] = {}
        for chunk in self._chunks(prompts, n):
            rows = [(p, s) for p, samples in chunk for s in samples]
            found = self._sample_rows([prompts[p] for p, _ in chunk], chunk, params, places)
            done.update(zip(rows, found, strict=True))
        return [[done[p, s] for s in range(n)] for p in range(len(prompts))]

    def _chunks(
        self, prompts: Sequence[Sequence[int]], n: int
    ) -> Iterator[list[tuple[int, range]]]:
        """(prompt, its samples) in batches of at most `self.batch` rows, like lengths together."""
        chunk: list[tuple[int, range]] = []
        room = self.batch
        for prompt in sorted(range(len(prompts)), key=lambda p: len(prompts[p])):
            sample = 0
            while sample < n:
                if room < min(n - sample, self.batch):
                    yield chunk
                    chunk, room = [], self.batch
                taken = min(n - sample, room)
                chunk.append((prompt, range(sample, sample + taken)))
                sample, room = sample + taken, room - taken
        if chunk:
            yield chunk

    def _sample_rows(
        self,
        prompts: Sequence[Sequence[int]],
        chunk: list[tuple[int, range]],
        params: SampleParams,
        places: Sequence[tuple[int, int]],
    ) -> list[Completion]:
        """One completion a sample; `places` are each prompt's seed and index in randomness.

        What has been sampled so far is computed once for all samples that share it: a row of the
        forward pass is a distinct history, from the prompts on.
        """
        counts = torch.tensor([len(samples) for _, samples in chunk])
        given = np.array([places[p] for p, _ in chunk], dtype=np.int64)
        seeds, owners = np.repeat(given, counts.numpy(), axis=0).T
        samples = np.concatenate([np.asarray(s, dtype=np.int64) for _, s in chunk])
        uniform = torch.from_numpy(uniforms(seeds, owners, samples, params.max_tokens))
        rows, logits = self._prefill(prompts, params.max_tokens, len(owners))
        tape = Tape.blank(len(owners), params)
        going = torch.arange(len(owners))
        row_of = torch.repeat_interleave(torch.arange(len(prompts)), counts)
        for step in range(params.max_tokens):
            tokens, logprobs = choose(logits, params, row_of, uniform[going, step])
            tape.write(going.numpy(), step, tokens, logprobs)
            left = torch.from_numpy(~tape.stopped[going.numpy()])
            going, tokens, row_of = going[left], tokens[left], row_of[left]
            if not len(going) or step + 1 == params.max_tokens:
                break
            parents, drawn, child = families(row_of, tokens)
            children = rows.branch(parents)
            row_of = torch.empty_like(children).index_put_((children,), torch.arange(len(children)))
            row_of = row_of[child]
            logits = rows.forward(drawn[children][:, None], keep=1)[:, 0]
        return tape.completions()

    @torch.no_grad()
    def rank(
        self,
        prompts: Sequence[Sequence[int]],
        options: Sequence[Sequence[int]],
        adapter: str | None,
    ) -> list[list[float]]:
        """log p(option | prompt) summed over the option's tokens, as `Engine.rank`."""
        if not options or not all(options):
            raise ConfigError("an option to rank has no token", where="local engine")
        with self.passes(adapter):
            return self._rank_all(prompts, options)

    def _rank_all(
        self, prompts: Sequence[Sequence[int]], options: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        ranked: list[list[float]] = [[] for _ in prompts]
        order = sorted(range(len(prompts)), key=lambda p: len(prompts[p]))
        size = max(1, self.batch // len(options))
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            scores = self._rank_rows([prompts[p] for p in chunk], options)
            for prompt, row in zip(chunk, scores.tolist(), strict=True):
                ranked[prompt] = row
        return ranked

    def _prefill(
        self, prompts: Sequence[Sequence[int]], more: int, room: int
    ) -> tuple[Decode, Tensor]:
        return Decode.prefill(self.causal, self.lean, prompts, self.pad_id, more, room)

    def _rank_rows(
        self, prompts: Sequence[Sequence[int]], options: Sequence[Sequence[int]]
    ) -> Tensor:
        longest = max(map(len, options))
        targets, valid = pad(options, longest, self.pad_id, left=False)
        state, last = self._prefill(prompts, longest, len(prompts) * len(options))
        logprobs = torch.log_softmax(last.float(), -1)[:, targets[:, 0]]
        if longest == 1:
            return logprobs
        children = state.branch(torch.arange(len(prompts)).repeat_interleave(len(options)))
        inputs = targets[:, :-1].repeat(len(prompts), 1)
        logits = torch.empty(len(children), longest - 1, last.shape[-1], dtype=last.dtype)
        logits[children] = state.forward(inputs[children], keep=longest - 1)
        later = torch.log_softmax(logits.float(), -1).view(
            len(prompts), len(options), longest - 1, -1
        )
        index = targets[None, :, 1:, None].expand(len(prompts), -1, -1, -1)
        found = later.gather(-1, index)[..., 0].masked_fill(~valid[None, :, 1:], 0)
        return logprobs + found.sum(-1)


def load_local(
    base: Path,
    revisions: Mapping[str, Path],
    *,
    threads: int = 1,
    batch: int = 128,
    dtype: str = "float32",
) -> LocalEngine:
    """The base in a folder, resident, with adapters by revision.

    Args:
        base: as saved by transformers, weights in safetensors.
        revisions: revision -> folder of the adapter.
        threads: of torch, in this process.
        batch: the most rows in one forward pass.
        dtype: "float32" or "bfloat16".

    Raises:
        ConfigError: the folder holds no causal LM.
        DigestError: an adapter doesn't fit the base.
    """
    torch.set_num_threads(threads)
    model = load_model(base, dtype)
    pad = model.config.get_text_config().pad_token_id
    engine = LocalEngine(model, pad_id=pad or 0, batch=batch)
    for revision, folder in revisions.items():
        engine.load(revision, folder)
    return engine


def load_model(base: Path, dtype: str) -> Any:
    """The causal LM in a folder, with grouped attention.

    Args:
        base: as saved by transformers, weights in safetensors.
        dtype: "float32" or "bfloat16".

    Raises:
        ConfigError: the folder holds none.
    """
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(
            str(base),
            dtype=getattr(torch, dtype),
            attn_implementation=attention.register(),
            use_safetensors=True,
            local_files_only=True,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no causal LM in safetensors: {str(error).splitlines()[0]}", where=str(base)
        ) from error
