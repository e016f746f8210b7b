"""The summary hop: what other specialists see of a long answer, made after the answer went out.

A summary always comes about: where the model gives none, the answer's own beginning stands in.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from macaron.engines.base import SampleParams
from macaron.engines.stream import StreamEngine
from macaron.errors import MacaronError
from macaron.harness.calls import without_thought
from macaron.harness.stopping import stop_ids
from macaron.harness.template import ChatTemplate
from macaron.hcp.schema import MemoryConfig

log = logging.getLogger("macaron.mol")


@dataclass(frozen=True)
class Summary:
    """What stands for an answer."""

    text: str
    tokens: int = 0
    """Read and sampled for it."""
    cut: bool = False
    """Whether it is but the answer's beginning."""


def cut(template: ChatTemplate, memory: MemoryConfig, answer: str) -> str:
    """The answer's beginning, as long as a summary may be."""
    return template.text(template.plain_ids(answer)[: memory.summary_tokens]).rstrip("�")


async def summarise(
    engine: StreamEngine,
    template: ChatTemplate,
    memory: MemoryConfig,
    seen: Sequence[int],
    answer: str,
    adapter: str | None,
) -> Summary:
    """A summary by the specialist that answered, which has read all of it already.

    Args:
        engine: where the base is resident.
        template: the base's.
        memory: of the HCP.
        seen: the specialist's ids up to the answer's end.
        answer: the text.
        adapter: the specialist's.
    """
    request = template.follow(
        [{"role": "user", "content": memory.summary_request}], last=seen[-1] if seen else None
    )
    prompt = [*seen, *request]
    params = SampleParams(memory.summary_tokens, temperature=0.0, stop_ids=stop_ids(template, ()))
    if template.window and len(prompt) + memory.summary_tokens > template.window:
        return Summary(cut(template, memory, answer), cut=True)
    try:
        done = await engine.submit(prompt, adapter, params).completion()
    except MacaronError as error:
        log.warning("no summary was made, the answer's beginning stands in: %s", error)
        return Summary(cut(template, memory, answer), cut=True)
    text = without_thought(template.text(done.token_ids)).strip()
    tokens = len(request) + len(done.token_ids)
    return Summary(text, tokens) if text else Summary(cut(template, memory, answer), tokens, True)
