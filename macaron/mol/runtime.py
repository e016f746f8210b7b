"""A pair at work on an engine that samples whole batches: rollouts, and the judge's sessions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.engines.base import Engine
from macaron.harness.allowlist import Sources
from macaron.harness.driver import Start, run_turns
from macaron.harness.namespace import Namespace
from macaron.harness.turn import Turn
from macaron.messages import Message
from macaron.mol.harness import Harness, harness_of
from macaron.mol.kit import Workshop
from macaron.mol.router import route
from macaron.pair import Pair


@dataclass(frozen=True, kw_only=True)
class Runtime(Harness):
    """A harness, and an engine that has its base and adapters."""

    engine: Engine

    def turns(self, starts: Sequence[Start]) -> list[Turn]:
        """A turn of each session, batched; neither delivered nor undone."""
        return run_turns(self.engine, self.adapters, starts)

    def route(self, conversations: Sequence[Sequence[Message]]) -> list[str]:
        """The specialist for each conversation's last turn."""
        choices = route(self.engine, self.tokenizer, self.hcp, conversations, self.adapters)
        return [choice.specialist for choice in choices]


def runtime_of(
    pair: Pair,
    folder: Path,
    engine: Engine,
    tokenizer: Any,
    *,
    namespaces: Callable[[int], Namespace] | None = None,
    sources: Sources | None = None,
    workshop: Workshop | None = None,
) -> Runtime:
    """The runtime of a pair; arguments and errors are those of `harness_of`.

    Args:
        engine: has the pair's base and adapters.
    """
    made = harness_of(
        pair, folder, tokenizer, namespaces=namespaces, sources=sources, workshop=workshop
    )
    return Runtime(**vars(made), engine=engine)
