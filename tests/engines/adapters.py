"""Random adapters as folders, as PEFT saves them."""

import json
from pathlib import Path


def save_random(base: Path, folder: Path, seed: int, rank: int = 4, size: float = 0.1) -> Path:
    """A plain LoRA that changes what every linear layer of the base gives; its folder."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base))
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear) and layer is not model.get_output_embeddings():
            shapes = {"A": (rank, layer.in_features), "B": (layer.out_features, rank)}
            for side, shape in shapes.items():
                key = f"base_model.model.{name}.lora_{side}.weight"
                tensors[key] = torch.randn(shape, generator=generator) * size
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": None}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder
