"""Searching a person's or a model's text for an HCP's patterns, within a time limit.

Some patterns take exponential time on some texts, and neither is ours.
"""

import regex

SEARCH_S = 1.0
"""Longest search of one text, seconds."""


SLOW = "[the search took too long]"


def found(pattern: str, text: str) -> str | None:
    """The first place that matches, None, or `SLOW` where that could not be found out in time."""
    try:
        match = regex.search(pattern, text, timeout=SEARCH_S)
    except TimeoutError:
        return SLOW
    return None if match is None else str(match.group())


def replaced(pattern: str, text: str, by: str) -> str:
    """The text with every place that matches replaced by `by`, which is taken literally.

    An empty pattern stands for the whole text. So does one whose search takes too long: what
    should have been replaced must not stay.
    """
    if not pattern:
        return by
    try:
        return str(regex.sub(pattern, lambda _: by, text, timeout=SEARCH_S))
    except TimeoutError:
        return by
