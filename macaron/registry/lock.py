"""One process at a time: a lock on a file, which the kernel drops when its holder dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from macaron.files import storage_errors


@contextmanager
def exclusive(path: Path) -> Iterator[int]:
    """Waits for the lock and holds it until the block ends.

    Yields its file descriptor: a child process that inherits it keeps the lock as well, so that
    nobody starts while an orphan of a killed holder still works.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
