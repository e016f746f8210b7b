"""Landlock: which files a process, and all that it starts, can still reach; a second fence.

The first is the private root; this one also holds where mounts are not allowed.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from macaron.harness.sandbox.inside import kernel
else:
    import kernel

EXECUTE, WRITE, READ, LIST = 1, 2, 4, 8
_REMOVE_FOLDER, _REMOVE_FILE, _MAKE_FOLDER, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
LOOK = READ | LIST
RUN = LOOK | EXECUTE
USE = READ | WRITE
OWN = (
    LOOK | WRITE | _REMOVE_FOLDER | _REMOVE_FILE | _MAKE_FOLDER | _MAKE_FILE | _REFER | _TRUNCATE
)
_ON_FILES = EXECUTE | WRITE | READ | _TRUNCATE
# Bits of file rights known to each version of the interface, the last for all later ones.
_KNOWN = (13, 14, 15, 15, 16)
_TCP, _SCOPES = 3, 3


def version() -> int:
    """Of the kernel's interface; 0 where there is none."""
    try:
        return kernel.syscall(kernel.LANDLOCK_CREATE, 0, 0, 1)
    except OSError:
        return 0


def confine(rights: Mapping[str, int]) -> bool:
    """Leaves this process the rights on the named paths that exist, and no others.

    NO_NEW_PRIVS must be set. Connections and signals to the outside end too, where the kernel
    knows how.

    Returns:
        whether it did.
    """
    known = version()
    if known == 0:
        return False
    handled = (1 << _KNOWN[min(known, len(_KNOWN)) - 1]) - 1
    words = (handled, _TCP if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    wanted = ctypes.create_string_buffer(struct.pack("<QQQ", *words)[:size], size)
    try:
        rules = kernel.syscall(kernel.LANDLOCK_CREATE, wanted, size, 0)
        try:
            _add(rules, handled, rights.items())
            kernel.syscall(kernel.LANDLOCK_RESTRICT, rules, 0)
        finally:
            os.close(rules)
    except OSError:
        return False
    return True


def _add(rules: int, handled: int, rights: Iterable[tuple[str, int]]) -> None:
    for path, allowed in rights:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if not stat.S_ISDIR(os.fstat(handle).st_mode):
                allowed &= _ON_FILES
            rule = ctypes.create_string_buffer(struct.pack("<Qi", allowed & handled, handle), 12)
            kernel.syscall(kernel.LANDLOCK_ADD, rules, 1, rule, 0)
        finally:
            os.close(handle)
