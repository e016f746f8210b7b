"""The start of a training process: DeepSpeed without what a training never uses.

Measured: a launch to the first step costs 0.9 CPU-seconds a process for MLflow, and a minute of
g++ at the first run on a machine, for nothing that a training of LoRAs needs.
"""

import importlib
import sys
from typing import Any


def import_deepspeed() -> None:
    """Imports DeepSpeed lean; later imports of it find this one.

    Its autotuner imports MLflow where there is one. Its communication backend compiles a
    shared-memory operation where there is a compiler; without it gloo does all, which for the
    gradient of a LoRA is as fast.
    """
    absent = "mlflow" not in sys.modules
    if absent:
        # None makes `import mlflow` fail, which the autotuner allows for.
        sys.modules["mlflow"] = None  # type: ignore[assignment]
    try:
        ops: Any = importlib.import_module("deepspeed.ops")
    finally:
        if absent:
            del sys.modules["mlflow"]
    ops.__compatible_ops__ = {}
