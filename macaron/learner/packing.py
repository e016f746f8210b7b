"""The packed layout: trees end to end in one stream, each prompt once, no padding.

Log-probabilities and gradients are those of the plain layout up to rounding; whether a model runs
it exactly is measured, not looked up.
"""

import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from macaron.engines.adapters import parameters_of
from macaron.engines.local import LocalEngine
from macaron.engines.packed import Span, TreeIndex
from macaron.learner.layout import Layout, PlainLayout, chosen_logprobs
from macaron.learner.tree import Branch, Tree

log = logging.getLogger("macaron.learner")

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.1}
"""Largest difference of a log-probability between two layouts that are the same function."""


class PackedLayout:
    """One stream; attention knows the trees."""

    name = "prompts shared in one stream"

    def logprobs(self, engine: LocalEngine, trees: Sequence[Tree]) -> Tensor:
        """log p of every response token, fp32, [tokens]; with gradient."""
        stream = _Stream(trees)
        logits = self._logits(
            engine,
            torch.tensor(stream.ids),
            torch.tensor(stream.positions),
            TreeIndex(stream.spans, len(stream.ids)),
            torch.tensor(stream.keep),
        )
        rows, heat = torch.tensor(stream.rows), torch.tensor(stream.heat)
        return chosen_logprobs(logits, rows, torch.tensor(stream.tokens), heat)

    def _logits(
        self, engine: LocalEngine, ids: Tensor, positions: Tensor, index: TreeIndex, keep: Tensor
    ) -> Tensor:
        """[kept, vocabulary]."""
        # A four-dimensional mask is taken as it is, so that the model builds none of its own.
        unused = torch.zeros(1, 1, 1, 1)
        logits: Tensor = engine.causal(
            input_ids=ids[None],
            position_ids=positions[None],
            attention_mask=unused,
            use_cache=False,
            logits_to_keep=keep,
            trees=index,
        ).logits[0]
        return logits


class LeanLayout(PackedLayout):
    """The same stream through the lean decoder."""

    name = "prompts shared in one stream, lean decoder"

    def _logits(
        self, engine: LocalEngine, ids: Tensor, positions: Tensor, index: TreeIndex, keep: Tensor
    ) -> Tensor:
        if engine.lean is None:
            raise ValueError("the model has no lean decoder")
        return engine.lean.trees(ids, positions, index, keep)


class _Stream:
    """The trees' tokens end to end; a response's last token predicts nothing and is left out."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.spans: list[Span] = []
        self.keep: list[int] = []
        """Stream places whose logits are needed."""
        self.heat: list[float] = []
        """Temperature of each of those."""
        self.rows: list[int] = []
        """For each response token, which of those predicts it."""
        self.tokens: list[int] = []
        for tree in trees:
            self._add(tree)

    def _add(self, tree: Tree) -> None:
        prompt = self._put(tree.prompt_ids, 0)
        root = len(self.keep)
        self._keep([prompt.stop - 1], tree.temperature)
        branches = []
        for branch in tree.branches:
            span = self._put(branch.token_ids[:-1], len(tree.prompt_ids))
            start = len(self.keep)
            self._keep(span, tree.temperature)
            self.rows += [root, *range(start, start + len(span))]
            self.tokens += branch.token_ids
            branches.append(span)
        self.spans.append(Span(prompt, branches))

    def _put(self, ids: Sequence[int], position: int) -> range:
        start = len(self.ids)
        self.ids += ids
        self.positions += range(position, position + len(ids))
        return range(start, len(self.ids))

    def _keep(self, places: Sequence[int], temperature: float) -> None:
        self.keep += places
        self.heat += [temperature] * len(places)


def best_layout(engine: LocalEngine, adapter: str) -> Layout:
    """The leanest layout whose log-probabilities and gradients are the plain one's."""
    parameters = list(parameters_of(engine.model, adapter).values())
    candidates: tuple[Layout, ...] = (LeanLayout(), PackedLayout())
    expected = _measure(engine, adapter, PlainLayout(), parameters)
    for layout in candidates:
        try:
            found = _measure(engine, adapter, layout, parameters)
        except (TypeError, ValueError, RuntimeError) as error:
            log.info("layout refused: %s: %s", layout.name, error)
            continue
        apart = [float((e - f).abs().max()) for e, f in zip(expected, found, strict=True)]
        if max(apart) <= TOLERANCE[engine.causal.dtype]:
            return layout
        log.info("layout not exact: %s: apart by %.3g", layout.name, max(apart))
    log.warning("the model cannot share prompts: %s", PlainLayout.name)
    return PlainLayout()


def _measure(
    engine: LocalEngine, adapter: str, layout: Layout, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """A probe's log-probabilities, and their gradient over its largest value."""
    with engine.passes(adapter):
        logprobs = layout.logprobs(engine, _probe(engine))
        weights = torch.linspace(-1, 1, len(logprobs))
        found = torch.autograd.grad((logprobs * weights).sum(), parameters, materialize_grads=True)
    gradient = torch.cat([g.flatten() for g in found])
    return logprobs.detach(), gradient / gradient.abs().max().clamp(min=1e-6)


def _probe(engine: LocalEngine) -> list[Tree]:
    top = engine.causal.config.get_text_config().vocab_size
    ids = [(7 * i * i + 3) % top for i in range(24)]
    return [
        Tree(ids[:5], (Branch(ids[5:9]), Branch(ids[9:10]), Branch(ids[10:16]))),
        Tree(ids[16:18], (Branch(ids[18:20]), Branch(ids[20:23]), Branch(ids[3:8]))),
    ]
