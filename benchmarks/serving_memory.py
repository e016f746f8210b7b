"""Resident memory of one way to serve, in a process of its own.

    python -m benchmarks.serving_memory [--merged] --base FOLDER [--adapter FOLDER ...]

Prints JSON. `weights` is the bytes of the distinct storages that hold weights. `grown` is how much
the process's resident set grew from before the first weight to after it served some sessions, keys
and values included; before, it served a model of a few thousand weights, so that code is left out.
`process` is what was resident by then.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.serving_bases import Bundle

SESSIONS, PROMPT, TOKENS = 8, 32, 8


def measured(bundle: Bundle, merged: bool) -> dict[str, int]:
    """Runs the measurement in a process."""
    bases = bundle.merged if merged else [bundle.base]
    command = [sys.executable, "-m", "benchmarks.serving_memory"]
    command += [part for base in bases for part in ("--base", str(base))]
    if not merged:
        command += [p for f in bundle.adapters.values() for p in ("--adapter", str(f))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def storages(tensors: Any) -> int:
    """Bytes of the distinct storages behind some tensors."""
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(held.values())


async def serve(engines: list[Any], adapters: list[Path]) -> None:
    """Some sessions on every engine: all adapters in turn, or as many on each copy."""
    from benchmarks.serving_bases import prompts
    from macaron.engines.base import SampleParams

    for engine in engines:
        for folder in adapters:
            await engine.load(folder.name, folder)
    tickets = [
        engines[number % len(engines)].submit(
            prompt,
            adapters[number % len(adapters)].name if adapters else None,
            SampleParams(TOKENS, seed=number),
        )
        for number, prompt in enumerate(prompts(SESSIONS, PROMPT, 700))
    ]
    for ticket in tickets:
        await ticket.completion()


def main() -> None:
    """Prints the measurement of one way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, action="append", required=True)
    parser.add_argument("--adapter", type=Path, action="append", default=[])
    given = parser.parse_args()
    import psutil

    from macaron.engines.continuous.load import load_streaming

    warm_up()
    process = psutil.Process()
    before = process.memory_info().rss
    engines = [load_streaming(base) for base in given.base]
    asyncio.run(serve(engines, given.adapter))
    grown = process.memory_info().rss - before
    weights = storages(t for e in engines for t in _weights(e))
    print(json.dumps({"weights": weights, "grown": grown, "process": before}))


def warm_up() -> None:
    """Serves a tiny model, for the code that this loads."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from macaron.engines.continuous.load import stream

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=800, **sizes, **heads))
    asyncio.run(serve([stream(model, cache_bytes=0)], []))


def _weights(engine: Any) -> list[Any]:
    passes, bank = engine.worker.progress.passes, engine.worker.bank
    found = [*passes.causal.parameters()]
    return [*found, *bank.tensors, *(g.weight for g in bank.groups)]


if __name__ == "__main__":
    main()
