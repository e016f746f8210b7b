"""The text that the router classifies, quoted: whatever it says, it cannot end the quotation."""

import re

from macaron.harness.cut import well_formed
from macaron.harness.template import ChatTemplate

OPEN, CLOSE = "<turn>", "</turn>"

GAP = " ... "
"""Stands where a long text's middle was."""

# Possessive, so that a million spaces are read once.
_SPELLED = re.compile(r"<(?=\s*+(?:/\s*+)?turn\b)", re.IGNORECASE)

_CHARS = 16
"""Characters a token at most, nearly always; what is longer is cut before it is tokenized."""


def quoted(template: ChatTemplate, text: str, limit: int) -> str:
    """The text between `<turn>` and `</turn>`, which stand nowhere else in it.

    Args:
        template: of the base, whose tokens are counted.
        text: what the user said.
        limit: the most tokens of it; of a longer one both ends are kept.
    """
    harmless = _SPELLED.sub("(", well_formed(text))
    return f"{OPEN}{cut_middle(template, harmless, limit)}{CLOSE}"


def cut_middle(template: ChatTemplate, text: str, limit: int) -> str:
    """The text's ends, of about `limit` tokens together; all of it where it has no more."""
    # No token is shorter than a byte.
    if len(text) <= limit and len(text.encode()) <= limit:
        return text
    longest = _CHARS * limit
    if len(text) > longest:
        text = text[: longest // 2] + GAP + text[-(longest // 2) :]
    ids = template.plain_ids(text)
    if len(ids) <= limit:
        return text
    half = max(1, limit // 2)
    head, tail = template.text(ids[:half]), template.text(ids[-half:])
    # A character that was cut through is gone.
    return head.rstrip("\ufffd") + GAP + tail.lstrip("\ufffd")
