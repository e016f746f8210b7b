"""What the caller of one turn wants otherwise than the HCP says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wishes:
    """None and empty leave a value to the HCP."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    """Longest response, tokens; never more than the HCP allows."""
    stop: tuple[str, ...] = ()
    """Texts that end a response, beside the HCP's."""
    opening: str = ""
    """What the first response has to begin with, such as a tool call's head."""
    seed: int | None = None
    """Of the turn; else it follows from the session's."""


NO_WISHES = Wishes()
