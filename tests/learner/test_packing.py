"""Sharing prompts is exact: log-probabilities and gradients are those of one row a response."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from macaron.engines.adapters import parameters_of
from macaron.learner.layout import PlainLayout
from macaron.learner.packing import LeanLayout, PackedLayout, best_layout
from macaron.learner.tree import Branch, Tree
from tests.engines.conftest import ARCHITECTURES


def random_ids(count: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 259, (count,), generator=generator).tolist()


def branch(count: int, seed: int) -> Branch:
    return Branch(random_ids(count, seed))


TREES = [
    Tree(random_ids(9, 0), tuple(branch(n, n) for n in (4, 1, 7, 7)), temperature=0.7),
    Tree(random_ids(3, 1), tuple(branch(n, 10 + n) for n in (2, 3, 1, 9)), temperature=0.7),
    Tree(random_ids(14, 2), tuple(branch(n, 20 + n) for n in (5, 5, 6, 2)), temperature=1.3),
]
RAGGED = [
    *TREES[:2],
    Tree(random_ids(6, 5), (branch(3, 40),)),
    Tree(random_ids(4, 6), (branch(1, 41),)),
]
SINGLES = [Tree(random_ids(5, 3), (branch(1, 30),)), Tree(random_ids(2, 4), (branch(4, 31),))]


def trainable(engine: Any) -> list[torch.Tensor]:
    parameters = list(parameters_of(engine.model, "one").values())
    for parameter in parameters:
        parameter.requires_grad_(True)
    return parameters


def measure(engine: Any, layout: Any, trees: list[Tree]) -> tuple[torch.Tensor, torch.Tensor]:
    with engine.passes("one"):
        logprobs = layout.logprobs(engine, trees)
        weights = torch.linspace(-1, 1, len(logprobs)) / len(logprobs)
        gradients = torch.autograd.grad((logprobs * weights).sum(), trainable(engine))
    return logprobs.detach(), torch.cat([g.flatten() for g in gradients])


@pytest.mark.parametrize("trees", [TREES, SINGLES, RAGGED], ids=["groups", "examples", "ragged"])
@pytest.mark.parametrize(
    ("architecture", "layout"),
    [
        *((a, PackedLayout()) for a in ARCHITECTURES),
        *((a, LeanLayout()) for a in ("qwen3", "llama")),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_packed_is_plain(
    make_engine: Callable[..., Any], architecture: str, layout: Any, trees: list[Tree]
) -> None:
    engine = make_engine(architecture)
    trainable(engine)
    expected, found = (measure(engine, way, trees) for way in (PlainLayout(), layout))
    assert len(found[0]) == sum(len(b.token_ids) for t in trees for b in t.branches)
    assert torch.allclose(expected[0], found[0], atol=1e-5)
    assert torch.allclose(expected[1], found[1], atol=1e-5 * float(expected[1].abs().max()))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_leanest_exact_layout_is_chosen(
    make_engine: Callable[..., Any], architecture: str
) -> None:
    engine = make_engine(architecture)
    trainable(engine)
    kind = PackedLayout if architecture == "qwen3_moe" else LeanLayout
    assert type(best_layout(engine, "one")) is kind


def test_without_the_lean_decoder_prompts_are_still_shared(
    make_engine: Callable[..., Any],
) -> None:
    engine = make_engine(lean=False)
    trainable(engine)
    assert type(best_layout(engine, "one")) is PackedLayout


def test_a_model_that_ignores_the_trees_gets_one_row_a_response(
    make_engine: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine("qwen3", lean=False, fresh=True)
    trainable(engine)
    engine.causal.set_attn_implementation("eager")
    with caplog.at_level(logging.WARNING):
        assert type(best_layout(engine, "one")) is PlainLayout
    assert "cannot share prompts" in caplog.text


def test_the_lean_decoder_has_the_gradient_of_what_it_computes(
    make_engine: Callable[..., Any],
) -> None:
    """Against finite differences, in the direction of the gradient."""
    engine = make_engine()
    parameters = trainable(engine)
    _, gradient = measure(engine, LeanLayout(), TREES)
    direction = gradient / gradient.norm()
    before = [p.detach().clone() for p in parameters]

    def value(step: float) -> float:
        """At `step` from where the parameters were."""
        start = 0
        with torch.no_grad():
            for p, kept in zip(parameters, before, strict=True):
                moved = direction[start : start + p.numel()].view_as(p)
                p.copy_(torch.add(kept, moved, alpha=step))
                start += p.numel()
        with engine.passes("one"), torch.no_grad():
            logprobs = LeanLayout().logprobs(engine, TREES).double()
        return float((logprobs * torch.linspace(-1, 1, len(logprobs)) / len(logprobs)).sum())

    slope = (value(1e-3) - value(-1e-3)) / 2e-3
    assert slope == pytest.approx(float(gradient.norm()), rel=1e-2)
