"""Freed memory is kept by the process, for the next step's tensors of the same sizes.

glibc gives large blocks back to the kernel at every free; each one used again is then mapped and
zeroed page by page, 10 to 15 % of a small model's update on a CPU.
"""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LIMIT = 2**30


def keep_freed_memory() -> bool:
    """Raises glibc's thresholds for this process to 1 GiB; False where there is no glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LIMIT) and mallopt(_TRIM_THRESHOLD, _LIMIT))
