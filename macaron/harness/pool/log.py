"""The live pool's events: a file that only grows, shared by threads and processes of one machine.

An event that was appended is on the disk; one that a dying writer left half is no event.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from macaron.errors import DigestError
from macaron.files import canonical_json, storage_errors
from macaron.pool.state import Event


class EventLog:
    """One file, read on from where it was read last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def new(self) -> list[Event]:
        """The events since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        try:
            # Not splitlines(), which also splits at what JSON leaves in strings.
            return [json.loads(line) for line in whole.split(b"\n") if line]
        except ValueError as error:
            raise DigestError(
                f"damaged: {error}", where=str(self.path), mend="mend or remove the bad line"
            ) from error

    def append(self, events: Sequence[Event]) -> None:
        """Adds events; on return they are on the disk. The caller holds the pool's lock."""
        data = "".join(f"{canonical_json(event)}\n" for event in events).encode()
        with storage_errors(self.path):
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _write(handle, data)
            finally:
                os.close(handle)


def _write(handle: int, data: bytes) -> None:
    """Writes after the last whole line; a failed write leaves no trace."""
    end = _whole(handle)
    os.ftruncate(handle, end)
    os.lseek(handle, end, os.SEEK_SET)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, end)
        raise


def _whole(handle: int) -> int:
    """Where the last whole line ends."""
    end = os.fstat(handle).st_size
    while end and os.pread(handle, 1, end - 1) != b"\n":
        end -= 1
    return end
