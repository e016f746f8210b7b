"""Which linear layers of a model read the same input.

Only a Llama-like model's are known to; every other model's layers stand alone.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from macaron.engines.continuous.group import Group
from macaron.engines.lean import fits

_LLAMA = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)


def group(causal: Any, layers: Mapping[str, nn.Linear], lean: bool) -> list[Group]:
    """The groups of a model, in its order.

    Args:
        layers: all that adapters change.
        lean: whether the lean passes are to use them.
    """
    if not lean:
        return [Group({name: layer}) for name, layer in layers.items()]
    groups = [
        Group({f"model.layers.{n}.{part}": layers[f"model.layers.{n}.{part}"] for part in parts})
        for n in range(len(causal.model.layers))
        for parts in _LLAMA
    ]
    _detach(causal, groups)
    return groups


def _detach(causal: Any, groups: list[Group]) -> None:
    """Copies what no group did, so that the file that all weights were mapped from is let go of.

    It would stay resident as a whole, beside the groups' copies of most of it.
    """
    copied = {g.weight.untyped_storage().data_ptr() for g in groups if len(g.names) > 1}
    for parameter in causal.parameters():
        if parameter.untyped_storage().data_ptr() not in copied:
            parameter.data = parameter.data.clone()
    for group in groups:
        if len(group.names) == 1:
            group.weight = causal.get_parameter(f"{group.names[0]}.weight").detach()


def llama_like(causal: Any, layers: Mapping[str, nn.Linear]) -> bool:
    """Whether the model has the parts that the lean passes read, and no other layers."""
    if not fits(causal, limit=None):
        return False
    parts = sum(map(len, _LLAMA))
    biases = {
        tuple(layers[f"model.layers.{n}.{p}"].bias is None for p in same)
        for n in range(len(causal.model.layers))
        for same in _LLAMA
    }
    alike = all(len(set(b)) == 1 for b in biases)
    return alike and len(layers) == parts * len(causal.model.layers)
