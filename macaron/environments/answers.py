"""What an answer's text says, read the same way by every verifier of code."""

import re

_FENCE = re.compile(r"\A```[a-z]*\n(.*?)\n?```\Z", re.DOTALL)


def code_of(answer: str) -> str:
    """The code in an answer: the text itself, without a Markdown fence round all of it."""
    text = answer.strip("\n").rstrip()
    fenced = _FENCE.match(text.strip())
    return fenced.group(1) if fenced else text
