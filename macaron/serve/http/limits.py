"""Token buckets: what a key may use a minute, refilled evenly, held in memory.

A bucket holds one minute's worth. A turn's tokens are known at its end, so that they may take a
bucket below zero; nothing more is let through until it is above again.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from macaron.serving import Limits

KEYS = 10_000
"""Most keys whose buckets are held; those idle for longest are forgotten, and are full again."""


@dataclass
class Bucket:
    """What is left of an allowance."""

    size: float
    """Also what it gets back a minute."""
    left: float
    at: float

    def refill(self, now: float) -> None:
        """Gives back what the time since has earned."""
        self.left = min(self.size, self.left + (now - self.at) * self.size / 60)
        self.at = now

    def wait(self, wanted: float) -> int:
        """Whole seconds until so much is there; 0: now."""
        missing = wanted - self.left
        return math.ceil(missing * 60 / self.size) if missing > 0 else 0


class Allowances:
    """The buckets of all keys.

    Args:
        limits: how much a minute.
        clock: seconds, monotonic.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._of: OrderedDict[str, tuple[Bucket, Bucket]] = OrderedDict()

    def request(self, key: str) -> int:
        """Takes one request of the key's, or says for how many seconds to wait; 0: taken."""
        requests, tokens = self._buckets(key)
        if wait := max(requests.wait(1), tokens.wait(1)):
            return wait
        requests.left -= 1
        return 0

    def used(self, key: str, tokens: int) -> None:
        """A turn of the key's used so many tokens."""
        self._buckets(key)[1].left -= tokens

    def _buckets(self, key: str) -> tuple[Bucket, Bucket]:
        now = self._clock()
        if key not in self._of:
            sizes = (self._limits.requests_per_minute, self._limits.tokens_per_minute)
            requests, tokens = (Bucket(size, size, now) for size in sizes)
            self._of[key] = requests, tokens
        self._of.move_to_end(key)
        if len(self._of) > KEYS:
            self._of.popitem(last=False)
        for bucket in self._of[key]:
            bucket.refill(now)
        return self._of[key]
