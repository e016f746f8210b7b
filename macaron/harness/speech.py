"""Speech: what may be shown of a response while it is being sampled.

What was shown once stays true: the pieces, joined, are the beginning of the turn's answer.
"""

from collections.abc import Sequence

from macaron.harness.calls import CLOSE, OPEN, THOUGHT_CLOSE, THOUGHT_OPEN, without_thought
from macaron.harness.template import ChatTemplate

_CUT_CHARACTER = "�"


class Speech:
    """One response's text, as it grows."""

    def __init__(
        self,
        template: ChatTemplate,
        stops: Sequence[str],
        *,
        holds: bool = False,
        calls: bool = False,
        thinks: bool = False,
        begins: str = "",
    ) -> None:
        """
        Args:
            template: the base's.
            stops: texts that end the response.
            holds: nothing is shown before the turn has ended, since what becomes of the text is
                decided then.
            calls: a tool call may begin anywhere, and is no text.
            thinks: the prompt ends within a thought.
            begins: what the response begins with, though it was not sampled.
        """
        self._template, self._stops = template, tuple(stops)
        self._holds, self._calls, self._thinks = holds, calls, thinks
        self._begins = begins
        marks = (*self._stops, THOUGHT_OPEN, THOUGHT_CLOSE, *((OPEN, CLOSE) if calls else ()))
        self._marks = tuple(mark for mark in marks if mark)
        self._ids: list[int] = []
        self.stopped = False
        """Whether a stop text has come: nothing after it counts."""
        self.shown = ""

    def feed(self, ids: Sequence[int]) -> str:
        """Takes further ids; the text that can be shown now, after what was shown before."""
        self._ids.extend(ids)
        text = self._begins + self._template.text(self._ids)
        places = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        self.stopped = bool(places)
        if self._holds or (self._thinks and THOUGHT_CLOSE not in text):
            return ""
        sure = without_thought(text[: min(places)] if places else self._sure(text))
        if not sure.strip():
            # A thought may yet follow the blanks.
            return ""
        if self._calls:
            sure = sure.partition(OPEN)[0].rstrip()
        return self._show(sure)

    def rest(self, answer: str) -> str:
        """What remains to be shown of the answer.

        Raises:
            ValueError: something else was shown.
        """
        if not answer.startswith(self.shown):
            raise ValueError("what was shown is not the beginning of the answer")
        return self._show(answer)

    def _sure(self, text: str) -> str:
        """The text without an end that may become a mark or a character."""
        text = text.rstrip(_CUT_CHARACTER)
        beginnings = (
            mark[:length]
            for mark in self._marks
            for length in range(min(len(mark) - 1, len(text)), 0, -1)
            if text.endswith(mark[:length])
        )
        return text[: len(text) - max(map(len, beginnings), default=0)]

    def _show(self, text: str) -> str:
        if not text.startswith(self.shown):
            return ""
        piece, self.shown = text[len(self.shown) :], text
        return piece
