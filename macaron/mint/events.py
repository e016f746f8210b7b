"""The training process's events: one JSON object a line on its standard output, nothing else.

start       base, processes, specialists
specialist  specialist, index, of, resumed
step        specialist, step, steps, and the learner's numbers
landed      specialist, revision, moved, seconds
skipped     specialist, revision: it was finished by an earlier run
done        results: specialist -> revision
error       kind, what, where, mend: the fields of a MacaronError
"""

import math
import os
from typing import Any

from macaron.errors import MacaronError
from macaron.files import canonical_json


class Events:
    """Where a rank's events go."""

    def __init__(self, rank: int, out: int) -> None:
        """
        Args:
            rank: of this process; only rank 0 tells of progress.
            out: file descriptor to write to.
        """
        self.rank, self._out = rank, out

    @classmethod
    def on_stdout(cls, rank: int) -> "Events":
        """Takes standard output for the events; whatever else is printed goes to the error's.

        Libraries print; a line of theirs must not be taken for an event or break one in two.
        """
        out = os.dup(1)
        os.dup2(2, 1)
        return cls(rank, out)

    def emit(self, event: str, **fields: Any) -> None:
        """One line, from rank 0 only."""
        if self.rank == 0:
            self._write({"event": event, **{k: _finite(v) for k, v in fields.items()}})

    def error(self, error: MacaronError) -> None:
        """The fault, from whichever rank met it."""
        kind = type(error).__name__
        self._write(
            {
                "event": "error",
                "kind": kind,
                "what": error.what,
                "where": error.where,
                "mend": error.mend,
            }
        )

    def _write(self, value: dict[str, Any]) -> None:
        # One write, so that lines of several ranks do not mix.
        os.write(self._out, canonical_json(value).encode() + b"\n")


def _finite(value: Any) -> Any:
    """JSON has no NaN; None says that a number could not be computed."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
