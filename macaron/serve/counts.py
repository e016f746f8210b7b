"""What a service counts for its metrics; of this process, since it began."""

from dataclasses import dataclass


@dataclass
class Counts:
    """Only ever added to, but for the last two."""

    router_faults: int = 0
    """Turns that the HCP's default specialist took because the router failed."""
    delivered: int = 0
    withdrawn: int = 0
    """Turns that failed, timed out or whose client went away."""
    failed: int = 0
    """Of these, those that the harness or the engine ended."""
    summaries: int = 0
    summaries_cut: int = 0
    """Of these, those that are but the answer's beginning."""
    summary_tokens: int = 0
    summary_waits: int = 0
    """Turns that had to wait for the summary of one before."""
    rebuilt: int = 0
    """Sessions rebuilt from the timeline."""
    moved: int = 0
    """Sessions whose pair is gone and that went on with the champion."""
    swaps: int = 0
    """New champions taken up."""
    swap_faults: int = 0
    recovered: int = 0
    """Turns of an earlier life of the server that were put into the experience."""
    running: int = 0
    sessions: int = 0
    """Kept ready to go on."""
