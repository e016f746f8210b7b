"""Counts that the engine's thread keeps and any thread may read."""

from dataclasses import asdict, dataclass

from macaron.engines.stream import EngineStats


@dataclass
class Counts:
    """As `EngineStats`."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    sampled_tokens: int = 0
    responses: int = 0
    running: int = 0
    waiting: int = 0
    cache_bytes: int = 0
    adapters: int = 0

    def stats(self) -> EngineStats:
        """What they are now."""
        return EngineStats(**asdict(self))
