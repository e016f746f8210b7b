"""A deployed project for benchmarks of the server: the shipped base, pairs that differ, a registry.

The adapters are random and small: each pair and specialist says something of its own, which is all
that a server's figures need.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from macaron.hcp.document import load_hcp
from macaron.mindforge.stores import pair_store, tracking
from macaron.mint.revision import identity_adapters
from macaron.pair import Pair, adapter_path, base_digest
from macaron.profile import load_profile
from macaron.registry.tracking import Tracking
from macaron.settings import Settings, load_settings

HOUSE = Path(__file__).parents[1]
PARTS = ("contracts", "models/profiles", "macaron.toml")
NOISE = 0.02
"""Of the adapters' B, where pairs have to differ; without it they answer as the base does."""


@dataclass(frozen=True)
class Deployed:
    """A project with registered pairs."""

    settings: Settings
    pairs: tuple[Pair, ...]
    versions: tuple[int, ...]
    registry: Tracking

    def promote(self, index: int) -> str:
        """Moves the alias; the new champion's id."""
        return self.registry.promote(self.versions[index]).pair_id


def deploy(
    folder: Path,
    pairs: int = 2,
    base: Path | None = None,
    noise: float = NOISE,
    trained: Path | None = None,
    **memory: int,
) -> Deployed:
    """Makes the project; its first pair is the champion.

    Args:
        folder: becomes the root.
        pairs: how many there are.
        base: the model; the shipped nano by default.
        noise: of the adapters.
        trained: folder of a pair whose adapters the pairs have instead.
        memory: fields of the HCP's memory section.
    """
    for part in PARTS:
        source, target = HOUSE / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    base = base or HOUSE / "models/nano"
    profile = folder / "models/profiles/nano.toml"
    text = profile.read_text().replace('base = "models/nano"', f'base = "{base}"')
    profile.write_text(text)
    settings = load_settings(folder)
    hcp = settings.path(settings.hcp)
    if memory:
        hcp.write_text(_with_memory(hcp.read_text(), memory))
    made = tuple(
        _pair(settings, base, hcp, trained or _made(settings, base, folder, n, noise))
        for n in range(pairs)
    )
    registry = tracking(settings, settings.model_name)
    registry.prepare()
    versions = tuple(_register(registry, settings, pair) for pair in made)
    deployed = Deployed(settings, made, versions, registry)
    deployed.promote(0)
    return deployed


def _with_memory(text: str, memory: dict[str, int]) -> str:
    lines = "\n".join(f"{name} = {value}" for name, value in memory.items())
    return text.replace('version = "1.0"', 'version = "1.1"') + f"\n[memory]\n{lines}\n"


def _made(settings: Settings, base: Path, folder: Path, seed: int, noise: float) -> Path:
    """Adapters of a seed, as in a pair's folder."""
    keys = tuple(load_hcp(settings.path(settings.hcp)).specialists)
    lora = load_profile(settings.path("models/profiles/nano.toml")).lora
    made = folder / "made" / str(seed)
    identity_adapters(base, lora, made / "adapters", keys, seed=seed)
    for n, key in enumerate(keys):
        _disturb(adapter_path(made, key) / "adapter_model.safetensors", 100 * seed + n, noise)
    return made


def _pair(settings: Settings, base: Path, hcp: Path, source: Path) -> Pair:
    keys = load_hcp(hcp).specialists
    adapters = {key: adapter_path(source, key) for key in keys}
    return pair_store(settings).create(base_digest(base), adapters, hcp, None, 0)


def _disturb(path: Path, seed: int, noise: float) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(seed)
    tensors = load_file(path)
    for name, tensor in tensors.items():
        if "lora_B" in name:
            tensors[name] = noise * torch.randn(tensor.shape, generator=generator)
    save_file(tensors, path, metadata={"format": "pt"})


def _register(registry: Tracking, settings: Settings, pair: Pair) -> int:
    run = registry.cycle_run(f"pair {pair.id}", {}, {})
    tags = {"pair_id": pair.id, "generation": "0", "verdict": "ancestor"}
    return registry.register(pair_store(settings).folder(pair.id), run, tags)
