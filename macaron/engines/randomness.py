"""Random numbers by place: (seed, prompt, sample, token) gives the number, whatever else runs.

Nothing is stored between calls, so that a row samples the same tokens in any batch and a resumed
run the same as one that was never stopped.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)


def derive(*parts: int | str) -> int:
    """A 63-bit seed from names and numbers; different parts give unrelated seeds."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


def uniforms(
    seed: int | NDArray[np.int64],
    prompts: NDArray[np.int64],
    samples: NDArray[np.int64],
    tokens: int,
) -> NDArray[np.float64]:
    """Numbers in [0, 1).

    Args:
        seed: of the call, or one a row.
        prompts: prompt index a row; `samples` the sample index.
        tokens: columns.

    Returns:
        [rows, tokens].
    """
    start = _mix(np.atleast_1d(np.asarray(seed, dtype=np.uint64)))
    row = _mix(_mix(start + prompts.astype(np.uint64) * _STEP) + samples.astype(np.uint64) * _STEP)
    place = row[:, None] + np.arange(1, tokens + 1, dtype=np.uint64)[None] * _STEP
    return (_mix(place) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed
