"""Grouped attention is eager attention."""

from pathlib import Path

import pytest
import torch

from macaron.engines.attention import causal_mask, grouped_attention
from macaron.engines.local import load_local
from tests.engines.conftest import ARCHITECTURES


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_model_computes_what_eager_computes(bases: dict[str, Path], architecture: str) -> None:
    causal = load_local(bases[architecture], {}).causal
    ids = torch.tensor([[0, 0, 5, 6, 7], [1, 2, 3, 4, 5]])
    valid = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    found = []
    with torch.no_grad():
        for implementation in ("macaron_grouped", "eager"):
            causal.set_attn_implementation(implementation)
            found.append(causal(input_ids=ids, attention_mask=valid).logits)
    assert torch.allclose(found[0][0, 2:], found[1][0, 2:], atol=1e-5)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-5)


def test_scale_and_softcap_count() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, 3, 4) for heads in (4, 2, 2))
    plain = grouped_attention(None, q, k, v, None)[0]
    assert not torch.allclose(plain, grouped_attention(None, q, k, v, None, scaling=2.0)[0])
    assert not torch.allclose(plain, grouped_attention(None, q, k, v, None, softcap=0.1)[0])
    assert torch.allclose(plain, grouped_attention(None, q, k, v, None, scaling=0.5)[0])


def test_the_causal_mask_sees_what_is_real_and_earlier() -> None:
    valid = torch.tensor([[False, True, True, True]])
    seen = causal_mask(valid, 2, torch.float32)[0, 0] == 0
    assert seen.tolist() == [[False, True, True, False], [False, True, True, True]]
