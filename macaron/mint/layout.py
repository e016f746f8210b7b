"""The shape of an adapter: which weights a LoRA of one rank on one base has, and nothing else.

Every linear layer of the base has an A and a B, the output embedding excepted. Keys are PEFT's.
"""

from pathlib import Path
from typing import Any

from macaron.profile import LoraConfig

PREFIX = "base_model.model."
WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"


def adapter_shapes(base: Path, rank: int) -> dict[str, tuple[int, int]]:
    """Weight key -> shape, in key order: lora_A [rank, in], lora_B [out, rank].

    Args:
        base: folder of the base; only its config.json is read.
        rank: of the LoRA.
    """
    shapes = {}
    for name, features_in, features_out in linear_layers(base):
        shapes[f"{PREFIX}{name}.lora_A.weight"] = (rank, features_in)
        shapes[f"{PREFIX}{name}.lora_B.weight"] = (features_out, rank)
    return dict(sorted(shapes.items()))


def linear_layers(base: Path) -> list[tuple[str, int, int]]:
    """(name, in, out) of each linear layer that an adapter covers; no weight is read."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base))
    head = model.get_output_embeddings()
    return [
        (name, layer.in_features, layer.out_features)
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear) and layer is not head
    ]


def target_modules(shapes: dict[str, tuple[int, int]]) -> list[str]:
    """Last names of the covered layers, sorted, as PEFT, vLLM and SGLang take them."""
    return sorted({key.split(".")[-3] for key in shapes})


def adapter_config(
    shapes: dict[str, tuple[int, int]], lora: LoraConfig, base_digest: str
) -> dict[str, Any]:
    """The value of adapter_config.json: no path of a machine and no version of a library in it.

    The base is named by its digest; whoever loads the adapter already holds the base.
    """
    return {
        "base_model_name_or_path": f"sha256:{base_digest}",
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": lora.alpha,
        "lora_dropout": 0.0,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": lora.rank,
        "target_modules": target_modules(shapes),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        "use_rslora": False,
    }
