"""The shape of an adapter: which weights a LoRA of one rank on one base has, and its config file.

Both are taken from the very adapter that the learner trains, built on no memory (torch's meta
device), so that what is expected and what is trained cannot differ.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.pair import base_digest
from macaron.profile import LoraConfig

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"

# What PEFT, vLLM and SGLang read; anything else is written only where it is not PEFT's default.
STATED = (
    "bias",
    "fan_in_fan_out",
    "lora_alpha",
    "lora_dropout",
    "modules_to_save",
    "peft_type",
    "r",
    "target_modules",
    "task_type",
    "use_dora",
    "use_rslora",
)


@dataclass(frozen=True)
class Layout:
    """What an adapter folder of one base and one LoRA shape holds."""

    shapes: dict[str, tuple[int, ...]]
    """Weight key, as PEFT saves it -> shape, in key order."""
    config: dict[str, Any]
    """adapter_config.json: no path of a machine and no version of a library in it."""


def adapter_layout(base: Path, lora: LoraConfig) -> Layout:
    """The layout of every adapter on the base; none of the base's weights is loaded.

    Raises:
        DigestError: the folder is no base.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from macaron.engines.adapters import add_adapter, parameters_of

    digest, name = base_digest(base), "layout"
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base))
        model = add_adapter(model, name, lora.rank, lora.alpha, seed=0)
    shapes = {saved_key(k, name): tuple(p.shape) for k, p in parameters_of(model, name).items()}
    return Layout(dict(sorted(shapes.items())), _config(model, name, digest))


def saved_key(parameter: str, adapter: str) -> str:
    """The key that PEFT saves an adapter's parameter under: its name without the adapter's."""
    return parameter.replace(f".{adapter}.", ".")


def _config(model: Any, name: str, digest: str) -> dict[str, Any]:
    """PEFT's config without what differs between machines, and with sets in order.

    The base is named by its digest; whoever loads the adapter already holds the base.
    """
    from peft import LoraConfig as PeftConfig

    given, default = model.peft_config[name].to_dict(), PeftConfig().to_dict()
    stated = {k: v for k, v in given.items() if k in STATED or v != default[k]}
    stated["target_modules"] = _short(model, stated["target_modules"])
    stated["base_model_name_or_path"] = f"sha256:{digest}"
    stated["inference_mode"] = True
    return {k: sorted(v) if isinstance(v, set) else v for k, v in sorted(stated.items())}


def _short(model: Any, targets: set[str]) -> set[str]:
    """Last names instead of full ones, where they choose the same layers."""
    short = {target.rsplit(".", 1)[-1] for target in targets}
    chosen = {m for m, _ in model.get_base_model().named_modules() if m.rsplit(".", 1)[-1] in short}
    covered = {m for m in chosen if any(m == t or m.endswith(f".{t}") for t in targets)}
    return short if covered == chosen else targets
