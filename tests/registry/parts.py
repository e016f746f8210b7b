"""Tiny real parts of pairs: adapters of a few numbers, and the shipped HCP."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from macaron.contract.document import Contract
from macaron.contract.verdict import Verdict, judge
from macaron.pair import Pair
from macaron.registry.pairs import WEIGHTS, PairStore
from tests.contract.outcomes import contract, outcomes

ROOT = Path(__file__).parents[2]
HCP = ROOT / "contracts" / "hcp" / "nano.toml"
SPECIALISTS = ("L0", "L1", "L2", "L3")


def adapter(folder: Path, value: float) -> Path:
    """A folder with PEFT's two files; the value decides the digest."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = np.full((4, 2), value, dtype=np.float32)
    save_file({"lora_A.weight": weights.T.copy(), "lora_B.weight": weights}, folder / WEIGHTS)
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2}\n')
    return folder


def adapters(folder: Path, value: float) -> dict[str, Path]:
    """One adapter per specialist."""
    return {name: adapter(folder / name, value + i) for i, name in enumerate(SPECIALISTS)}


def make_pair(store: PairStore, tmp: Path, value: float, parent: Pair | None = None) -> Pair:
    """A pair whose adapters are given by the value."""
    parts = adapters(tmp / f"parts-{value}", value)
    generation = parent.generation + 1 if parent else 0
    return store.create("0" * 64, parts, HCP, parent.id if parent else None, generation)


def make_verdict(
    promoted: bool, challenger: str | None = None, under: Contract | None = None
) -> Verdict:
    """A verdict under the given contract over `chat` and `routing`, or the tests' own."""
    gains = 30 if promoted else 0
    measured = {
        "chat": outcomes(50, gains, 0, 50 - gains),
        "routing": outcomes(90, 1, 1, 8),
    }
    return judge(under or contract(), measured, challenger=challenger)
