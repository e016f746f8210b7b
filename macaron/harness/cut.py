"""Texts cut to a budget, with a notice of what is missing; and texts that can be encoded."""

from collections.abc import Sequence


def cut(text: str, limit: int) -> str:
    """The text's first `limit` characters, and a notice where there were more."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {limit} of {len(text)} characters shown]"


def well_formed(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can spell and UTF-8 can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def share(texts: Sequence[str], limit: int) -> list[str]:
    """The texts cut so that together they show at most `limit` characters.

    Short ones are whole as long as they take no more than an equal share; the long ones share what
    those leave.
    """
    allowed = [0] * len(texts)
    left = limit
    for place, index in enumerate(sorted(range(len(texts)), key=lambda i: len(texts[i]))):
        allowed[index] = min(len(texts[index]), left // (len(texts) - place))
        left -= allowed[index]
    return [well_formed(cut(text, size)) for text, size in zip(texts, allowed, strict=True)]
