"""An adapter's tensors from its folder, checked against the base's layers.

Only plain LoRA on every linear layer but the head is an adapter here, as everywhere in Macaron.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from macaron.engines.adapters import WEIGHTS
from macaron.engines.continuous.group import Parts
from macaron.errors import DigestError

CONFIG = "adapter_config.json"
_PREFIX = "base_model.model."
_FORMS = ("use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "fan_in_fan_out")


def adapted_layers(causal: Any) -> dict[str, nn.Linear]:
    """The layers that an adapter changes, by name, in the model's order."""
    head = causal.get_output_embeddings()
    return {
        name: module
        for name, module in causal.named_modules()
        if isinstance(module, nn.Linear) and module is not head
    }


def read_adapter(folder: Path, layers: Mapping[str, tuple[int, int]]) -> Parts:
    """The adapter in a folder.

    Args:
        layers: name -> outputs and inputs.

    Raises:
        DigestError: it is not plain LoRA, or its tensors aren't exactly those of the layers.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / CONFIG).read_text())
        tensors = load_file(folder / WEIGHTS)
        rank, scale = int(config["r"]), config["lora_alpha"] / config["r"]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise _misfit(f"adapter cannot be read: {error}", folder) from error
    odd = [form for form in _FORMS if config.get(form)]
    if odd:
        raise _misfit(f"adapter is not plain LoRA: {odd[0]} is set", folder)
    _check(tensors, layers, rank, folder)
    # A row's adapter is chosen by leaving out the others' ranks, which must be numbers for that.
    if not all(bool(t.isfinite().all()) for t in tensors.values()):
        raise DigestError("an adapter's weights are not numbers", where=str(folder))
    return {name: (tensors[_key(name, "A")], tensors[_key(name, "B")] * scale) for name in layers}


def _check(
    tensors: Mapping[str, Tensor], layers: Mapping[str, tuple[int, int]], rank: int, folder: Path
) -> None:
    wanted = {
        _key(name, side): shape
        for name, (outputs, inputs) in layers.items()
        for side, shape in (("A", (rank, inputs)), ("B", (outputs, rank)))
    }
    found = {name: tuple(t.shape) for name, t in tensors.items()}
    if wanted != found:
        odd = sorted(wanted.items() ^ found.items())[:2]
        raise _misfit(f"adapter does not fit the base: {odd}", folder)


def _key(layer: str, side: str) -> str:
    return f"{_PREFIX}{layer}.lora_{side}.weight"


def _misfit(what: str, folder: Path) -> DigestError:
    return DigestError(what, where=str(folder), mend="use the base that it was trained on")
