"""Stop texts: where a response ends by what it says, though the engine went on."""

from bisect import bisect_left
from collections.abc import Sequence

from macaron.harness.template import ChatTemplate


def stop_ids(template: ChatTemplate, stops: Sequence[str]) -> tuple[int, ...]:
    """Ids at which an engine can stop: ends of turn, and stop texts that are one token."""
    encoded = [template.plain_ids(text) for text in stops]
    return (*template.stop_ids, *(ids[0] for ids in encoded if len(ids) == 1))


def end_of_response(
    template: ChatTemplate, ids: Sequence[int], stops: Sequence[str]
) -> tuple[int, str]:
    """How many of the ids belong to a response, and what it says without the stop text.

    The token that completes the first stop text is the last to belong.
    """
    text = template.text(ids)
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    if not places:
        return len(ids), text
    lengths = range(len(ids) + 1)
    count = bisect_left(
        lengths, True, key=lambda n: any(stop in template.text(ids[:n]) for stop in stops)
    )
    return count, text[: min(places)]
