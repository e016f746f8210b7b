"""The reward-hack watch: cheap attacks that no registered verifier may pay for."""

from macaron.environments.watch.register import MEMORY, used, watch_all
from macaron.environments.watch.watch import Found, refuse, watch

__all__ = ["MEMORY", "Found", "refuse", "used", "watch", "watch_all"]
