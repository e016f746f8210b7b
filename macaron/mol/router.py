"""The route hop: L0 chooses one canonical label; nothing else can come out of it."""

from collections.abc import Sequence
from typing import Any

from macaron.engines.base import Engine
from macaron.harness.prompts import label_ids, route_prompt
from macaron.hcp.document import HCP
from macaron.messages import Message


def route(
    engine: Engine,
    tokenizer: Any,
    hcp: HCP,
    conversations: Sequence[Sequence[Message]],
    adapter: str | None,
) -> list[str]:
    """The specialist's key for each conversation: the likeliest label, never parsed text.

    Args:
        engine: where the base is resident.
        tokenizer: the base's tokenizer.
        hcp: gives the labels; a further specialist needs no code.
        conversations: each ends with the user turn to route.
        adapter: the router's adapter revision.
    """
    labels = label_ids(tokenizer, hcp)
    prompts = [route_prompt(tokenizer, hcp, messages) for messages in conversations]
    scores = engine.rank(prompts, list(labels.values()), adapter)
    keys = list(labels)
    return [keys[max(range(len(keys)), key=row.__getitem__)] for row in scores]
