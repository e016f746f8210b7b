"""Which row lies in which slot: the rows that are being sampled first, without a gap.

So a decode step reads the slots as one view. A row that ends leaves a hole, which a later row is
moved into.
"""

from macaron.engines.continuous.row import Row, Sampling
from macaron.engines.continuous.slots import Slots


class Places:
    """The rows in their slots."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.rows: list[Row] = []
        """By slot."""
        self.count = 0
        """Rows that are being sampled: the first so many."""

    @property
    def running(self) -> list[Sampling]:
        """The rows that are being sampled."""
        return [row for row in self.rows[: self.count] if isinstance(row, Sampling)]

    def add(self, row: Row) -> None:
        """Gives a row a slot behind the others."""
        row.slot = len(self.rows)
        self.rows.append(row)
        self.reserve(len(row.ids))

    def reserve(self, columns: int) -> None:
        """Makes room for rows of so many tokens."""
        self.slots.reserve(len(self.rows), max(columns, *(row.filled for row in self.rows)))

    def fits(self, row: Row) -> bool:
        """Whether all rows have room with one more, up to their ends."""
        rows = [*self.rows, row]
        size = self.slots.size(len(rows), max(r.columns for r in rows))
        return len(rows) == 1 or size <= self.slots.limit

    def start(self, row: Row) -> None:
        """Moves a row that has been read to those that are being sampled."""
        other = self.rows[self.count]
        if other is not row:
            self.slots.swap(row.slot, other.slot, max(row.filled, other.filled))
            self.rows[row.slot] = other
            row.slot, other.slot = other.slot, row.slot
            self.rows[row.slot] = row
        self.count += 1

    def remove(self, row: Row) -> None:
        """Frees a row's slot."""
        hole = row.slot
        if hole < self.count:
            self.count -= 1
            hole = self._move(self.count, hole)
        self._move(len(self.rows) - 1, hole)
        self.rows.pop()
        row.slot = -1

    def _move(self, source: int, hole: int) -> int:
        """Fills a hole; returns where there is one now."""
        if source != hole:
            row = self.rows[hole] = self.rows[source]
            self.slots.move(source, hole, row.filled)
            row.slot = hole
        return source
