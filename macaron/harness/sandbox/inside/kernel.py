"""The Linux calls that isolate a process and that Python does not wrap; each raises OSError.

Nothing in here decides anything: what to isolate is the callers' business.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct

MACHINE = platform.machine()
LIBC = ctypes.CDLL(None, use_errno=True)
# Keeps the interpreter's lock through the call: a clone must not leave it to a thread that the
# child doesn't have.
HELD = ctypes.PyDLL(None, use_errno=True)

NEW_NS, NEW_CGROUP, NEW_UTS = 0x00020000, 0x02000000, 0x04000000
NEW_IPC, NEW_USER, NEW_PID, NEW_NET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
NEW_TIME = 0x80
NEW_ALL = NEW_NS | NEW_CGROUP | NEW_UTS | NEW_IPC | NEW_USER | NEW_PID | NEW_NET
CLONE_PARENT, CLONE_THREAD = 0x8000, 0x10000
FORK = CLONE_PARENT | signal.SIGCHLD
"""Of a cell: a child of the keeper, not of the process that forks."""

PDEATHSIG, DUMPABLE, NO_NEW_PRIVS = 1, 4, 38
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
AT_FDCWD, AT_RECURSIVE, AT_EMPTY_PATH = -100, 0x8000, 0x1000

CLONE, PIVOT_ROOT = {"x86_64": (56, 155), "aarch64": (220, 41)}.get(MACHINE, (-1, -1))
SECCOMP = {"x86_64": 317, "aarch64": 277}.get(MACHINE, -1)
CAPSET = {"x86_64": 126, "aarch64": 91}.get(MACHINE, -1)
# The same number everywhere.
MOUNT_SETATTR, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 442, 444, 445, 446


def check(result: int, what: str) -> int:
    """The result, once it is no failure.

    Raises:
        OSError: it is -1.
    """
    if result == -1:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char]) -> int:
    """A system call by its number; integers go as 64 bits."""
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return check(LIBC.syscall(ctypes.c_long(number), *wide), f"system call {number}")


def prctl(option: int, value: int) -> None:
    """One of the process's own switches."""
    rest = (ctypes.c_ulong(0),) * 3
    check(LIBC.prctl(option, ctypes.c_ulong(value), *rest), f"prctl {option}")


def unshare(flags: int) -> None:
    """Leaves the named namespaces for new ones."""
    check(LIBC.unshare(flags), "unshare")


def clone(flags: int) -> int:
    """Forks with flags, without running anyone's fork handlers; 0 in the child.

    Python's own fork would seed `random` anew, so that a session's seed would not last.
    """
    numbers = (CLONE, flags, 0, 0, 0, 0)
    return check(HELD.syscall(*(ctypes.c_long(n) for n in numbers)), "clone")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mounts a file system, or with MS_BIND a folder or file, at the target."""
    words = [text.encode() if text else None for text in (source, target, kind)]
    done = LIBC.mount(*words, ctypes.c_ulong(flags), data.encode() if data else None)
    check(done, f"mount {target}")


def lock_mount(target: str, attributes: int, *, deep: bool = True) -> None:
    """Sets attributes of a mount, such as ATTR_RDONLY, and of all mounts below it."""
    wanted = ctypes.create_string_buffer(struct.pack("<QQQQ", attributes, 0, 0, 0), 32)
    flags = AT_RECURSIVE if deep else 0
    syscall(MOUNT_SETATTR, AT_FDCWD, os.fsencode(target) + b"\0", flags, wanted, 32)


def enter_root(folder: str) -> None:
    """Makes the folder, which must be a mount, the root; what was above is out of reach."""
    os.chdir(folder)
    syscall(PIVOT_ROOT, b".\0", b".\0")
    check(LIBC.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")


def drop_capabilities() -> None:
    """Gives up every capability, for good once NO_NEW_PRIVS is set."""
    head = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0), 8)
    syscall(CAPSET, head, ctypes.create_string_buffer(bytes(24), 24))


def map_self(process: str, user: int, group: int, proc: int | None = None) -> None:
    """Gives one user and one group of a new user namespace their own numbers.

    Args:
        process: "self" or a process id.
        user, group: numbers that stay what they are outside.
        proc: an open /proc folder, where it can no longer be reached by its name.
    """
    lines = (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1"))
    for name, text in lines:
        path = f"{process}/{name}"
        handle = os.open(path if proc is not None else f"/proc/{path}", os.O_WRONLY, dir_fd=proc)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
