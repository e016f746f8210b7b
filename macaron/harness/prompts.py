"""Prompts as token ids: the same HCP and conversation give the same ids, in training and serving.

Every conversation is rendered here and nowhere else.
"""

from collections.abc import Sequence
from typing import Any

from macaron.harness.allowlist import declared
from macaron.harness.hooks import Hooks
from macaron.harness.quoting import quoted
from macaron.harness.template import template_of
from macaron.harness.view import first_messages, open_view
from macaron.hcp.document import HCP
from macaron.messages import Message


def answer_prompt(
    tokenizer: Any, hcp: HCP, specialist: str, messages: Sequence[Message]
) -> list[int]:
    """Prompt of a specialist's answer: what a session asks for first.

    Tools, skills and hooks of the HCP are in it as they would be there; a hook's refusal is not,
    because the answer is wanted.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        hcp: the harness.
        specialist: key of `hcp.specialists`.
        messages: the conversation, ending with the turn to answer.
    """
    view = open_view(hcp, specialist, template_of(tokenizer), declared(hcp))
    view.extend(view.hear(messages, Hooks(hcp.hooks, specialist)).messages)
    return view.transcript.ids


def route_prompt(tokenizer: Any, hcp: HCP, messages: Sequence[Message]) -> list[int]:
    """Prompt of the route hop: only the last user turn is classified, quoted as untrusted data.

    All before the turn's own words is the same for every turn.
    """
    last = next(m for m in reversed(messages) if m["role"] == "user")
    template = template_of(tokenizer)
    text = quoted(template, last["content"] or "", hcp.router.text_tokens)
    return template.start(first_messages(hcp.router.system, [{"role": "user", "content": text}]))


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
