"""Prompts as token ids: the same HCP and conversation give the same ids, in training and serving.

Every conversation is rendered here and nowhere else.
"""

from collections.abc import Sequence
from typing import Any

from macaron.harness.template import template_of
from macaron.hcp.document import HCP
from macaron.messages import Message


def answer_prompt(
    tokenizer: Any, hcp: HCP, specialist: str, messages: Sequence[Message]
) -> list[int]:
    """Prompt of a specialist's answer, its system prompt first.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        hcp: the harness.
        specialist: key of `hcp.specialists`.
        messages: the conversation, ending with the turn to answer.
    """
    return _render(tokenizer, hcp.specialists[specialist].system, messages)


def route_prompt(tokenizer: Any, hcp: HCP, messages: Sequence[Message]) -> list[int]:
    """Prompt of the route hop; only the last user turn is classified, as quoted data."""
    last = next(m for m in reversed(messages) if m["role"] == "user")
    return _render(tokenizer, hcp.router.system, [last])


def label_ids(tokenizer: Any, hcp: HCP) -> dict[str, list[int]]:
    """Specialist -> token ids of its canonical label, with the end of turn."""
    return {key: answer_ids(tokenizer, s.name) for key, s in hcp.specialists.items()}


def answer_ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids of an answer that exists as text only, with the end of turn.

    Never for text that was sampled: its ids are kept from the sampler.
    """
    # A text that spells a special token must not become one: it may be a user's correction.
    ids = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
    return [*ids, tokenizer.eos_token_id]


def answer_text(tokenizer: Any, token_ids: Sequence[int]) -> str:
    """The answer's text, without special tokens."""
    return str(tokenizer.decode(list(token_ids), skip_special_tokens=True))


def first_messages(system: str, messages: Sequence[Message]) -> list[Message]:
    """The conversation with the system prompt, where there is one, before it."""
    return [{"role": "system", "content": system}, *messages] if system else [*messages]


def _render(tokenizer: Any, system: str, messages: Sequence[Message]) -> list[int]:
    return template_of(tokenizer).start(first_messages(system, messages))
