"""A session's files: kept as they were at a moment, and put back.

The tree was made by hostile code: nothing in it is followed, and it may be as deep as it is wide.
Its size and number of files are the mount's limits, so that a copy fits in memory.
"""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    Stamp = tuple[int, int, int]
    Saved = dict[bytes, "Entry"]

PLACE = "/tmp"
FILES = 512
"""Most files and folders."""
RACY_NS = 50_000_000
"""A file changed so shortly before it was looked at may change again under the same time."""


class Entry:
    """One file, or a folder where `data` is None."""

    __slots__ = ("data", "stamp")

    def __init__(self, data: bytes | None, stamp: Stamp) -> None:
        self.data, self.stamp = data, stamp


def save(known: Saved) -> Saved:
    """The files as they are; contents that did not change are shared with those known."""
    found: Saved = {}
    top = os.open(PLACE, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _scan(top, b"", known, found)
    finally:
        os.close(top)
    return found


def restore(saved: Saved) -> None:
    """Makes the files as they were; those that did not change keep their inode."""
    now = save(saved)
    top = os.open(PLACE, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _clear(top, b"", saved, now)
        _fill(top, b"", saved, now)
    finally:
        os.close(top)


def _scan(folder: int, prefix: bytes, known: Saved, found: Saved) -> None:
    for name in _names(folder):
        path, seen = prefix + name, os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(seen.st_mode):
            found[path] = Entry(None, (seen.st_ino, 0, 0))
            inner = _open_folder(folder, name)
            try:
                _scan(inner, path + b"/", known, found)
            finally:
                os.close(inner)
        elif stat.S_ISREG(seen.st_mode):
            found[path] = _file(folder, name, seen, known.get(path))


def _file(folder: int, name: bytes, seen: os.stat_result, before: Entry | None) -> Entry:
    stamp = (seen.st_ino, seen.st_ctime_ns, seen.st_size)
    if before is not None and before.stamp == stamp and before.data is not None:
        return before
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        data = _all(handle, seen.st_size)
    finally:
        os.close(handle)
    if time.time_ns() - seen.st_ctime_ns < RACY_NS:
        stamp = (stamp[0], -1, stamp[2])
    if before is not None and before.data == data:
        data = before.data
    return Entry(data, stamp)


def _all(handle: int, size: int) -> bytes:
    parts = []
    while size > 0 and (part := os.read(handle, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _clear(folder: int, prefix: bytes, saved: Saved, now: Saved) -> None:
    """Removes what was not there, and what was of the other kind."""
    for name in _names(folder):
        path = prefix + name
        is_folder = path in now and now[path].data is None
        wanted = saved.get(path)
        stays = wanted is not None and (wanted.data is None) == is_folder
        if is_folder:
            inner = _open_folder(folder, name)
            try:
                _clear(inner, path + b"/", saved if stays else {}, now)
            finally:
                os.close(inner)
            if not stays:
                os.rmdir(name, dir_fd=folder)
        elif not stays or path not in now:
            os.unlink(name, dir_fd=folder)


def _fill(folder: int, prefix: bytes, saved: Saved, now: Saved) -> None:
    """Makes what is missing and writes what differs, one level at a time."""
    depth = len(prefix)
    for path, entry in saved.items():
        name = path[depth:]
        if not path.startswith(prefix) or b"/" in name:
            continue
        if entry.data is not None:
            there = now.get(path)
            if there is None or there.data != entry.data:
                _write(folder, name, entry.data)
            continue
        if path not in now or now[path].data is not None:
            os.mkdir(name, 0o755, dir_fd=folder)
        inner = _open_folder(folder, name)
        try:
            _fill(inner, path + b"/", saved, now)
        finally:
            os.close(inner)


def _write(folder: int, name: bytes, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    handle = os.open(name, flags, 0o644, dir_fd=folder)
    try:
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)


def _names(folder: int) -> list[bytes]:
    return [os.fsencode(name) for name in os.listdir(folder)]


def _open_folder(folder: int, name: bytes) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
