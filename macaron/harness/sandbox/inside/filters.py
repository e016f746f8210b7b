"""Filters of system calls (seccomp): what a cell, a job and a shell may ask the kernel for.

A cell's and a job's list is what they may do; everything else is refused with EPERM. A shell runs
other people's programs, so that its list is what they may not do.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from macaron.harness.sandbox.inside import kernel

    Line = tuple[int, int, int, int]
    Checks = tuple[tuple[int, str, tuple[int, ...]], ...]
    Rule = tuple[int, Checks]
else:
    import kernel

KILL, ALLOW, NOTIFY = 0x80000000, 0x7FFF0000, 0x7FC00000
SET_FILTER, NEW_LISTENER = 1, 8
LOAD, EQUAL, AT_LEAST, ANY_BIT, GIVE = 0x20, 0x15, 0x35, 0x45, 0x06


def refuse(number: int) -> int:
    """The action that answers with an error number; 0 pretends that it was done."""
    return 0x00050000 | number


REFUSE = refuse(errno.EPERM)

# Numbers on (x86_64, aarch64); -1 where the machine has no such call.
NUMBERS = {
    "read": (0, 63), "write": (1, 64), "open": (2, -1), "close": (3, 57), "stat": (4, -1),
    "fstat": (5, 80), "lstat": (6, -1), "poll": (7, -1), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "ioctl": (16, 29), "pread64": (17, 67),
    "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66), "access": (21, -1),
    "select": (23, -1), "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233),
    "dup": (32, 23), "dup2": (33, -1), "nanosleep": (35, 101), "getpid": (39, 172),
    "socket": (41, 198), "socketpair": (53, 199), "clone": (56, 220), "exit": (60, 93),
    "uname": (63, 160), "fcntl": (72, 25), "fsync": (74, 82), "fdatasync": (75, 83),
    "truncate": (76, 45), "ftruncate": (77, 46), "getcwd": (79, 17), "chdir": (80, 49),
    "fchdir": (81, 50), "rename": (82, -1), "mkdir": (83, -1), "rmdir": (84, -1),
    "unlink": (87, -1), "readlink": (89, -1), "chmod": (90, -1), "fchmod": (91, 52),
    "chown": (92, -1), "fchown": (93, 55), "lchown": (94, -1), "umask": (95, 166),
    "gettimeofday": (96, 169), "getrlimit": (97, 163), "getrusage": (98, 165),
    "times": (100, 153), "ptrace": (101, 117), "getuid": (102, 174),
    "syslog": (103, 116), "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177),
    "sigaltstack": (131, 132), "statfs": (137, 43), "fstatfs": (138, 44), "pivot_root": (155, 41),
    "chroot": (161, 51), "acct": (163, 89), "settimeofday": (164, 170), "mount": (165, 40),
    "umount2": (166, 39), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
    "sethostname": (170, 161), "init_module": (175, 105), "delete_module": (176, 106),
    "quotactl": (179, 60), "gettid": (186, 178), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "getdents64": (217, 61), "clock_settime": (227, 112),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "exit_group": (231, 94), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "openat": (257, 56), "mkdirat": (258, 34), "mknodat": (259, 33),
    "fchownat": (260, 54), "newfstatat": (262, 79), "unlinkat": (263, 35), "renameat": (264, 38),
    "linkat": (265, 37), "symlinkat": (266, 36), "readlinkat": (267, 78), "fchmodat": (268, 53),
    "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73), "unshare": (272, 97),
    "set_robust_list": (273, 99), "utimensat": (280, 88), "dup3": (292, 24),
    "perf_event_open": (298, 241), "prlimit64": (302, 261), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "setns": (308, 268), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "finit_module": (313, 273),
    "renameat2": (316, 276), "getrandom": (318, 278), "bpf": (321, 280),
    "userfaultfd": (323, 282), "statx": (332, 291), "rseq": (334, 293),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsmount": (432, 432), "clone3": (435, 435), "pidfd_getfd": (438, 438),
    "faccessat2": (439, 439), "mount_setattr": (442, 442), "fchmodat2": (452, 452),
    "mknod": (133, -1), "link": (86, -1), "symlink": (88, -1), "kexec_load": (246, 104),
    "iopl": (172, -1), "ioperm": (173, -1), "memfd_create": (319, 279),
}  # fmt: skip

# None that sleeps: only work uses up a job's time.
BARE = (
    "read", "write", "close", "fstat", "lseek", "mmap", "mprotect", "munmap", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "brk", "mremap", "madvise", "getpid", "exit", "exit_group",
    "futex", "sigaltstack", "clock_gettime", "gettimeofday", "getrusage", "sched_yield",
    "getrandom", "gettid",
)  # fmt: skip

# Sleeping is a cell's own affair: the wall clock ends it. No other process can be named, no
# descriptor shared with the keeper be changed.
CELL = (
    *BARE, "pread64", "pwrite64", "readv", "writev", "poll", "ppoll", "select", "pselect6", "dup",
    "dup2", "dup3", "nanosleep", "clock_nanosleep", "clock_getres", "times", "uname", "getuid",
    "getgid", "geteuid", "getegid", "getrlimit", "sched_getaffinity",
    "set_robust_list", "rseq", "umask", "clone",
)  # fmt: skip
FILES = (
    "open", "openat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2",
    "readlink", "readlinkat", "getdents64", "getcwd", "chdir", "fchdir", "mkdir", "mkdirat",
    "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "truncate", "ftruncate",
    "fsync", "fdatasync", "statfs", "fstatfs",
)  # fmt: skip
# A file's mode and owner are the session's alone: programs that set them go on.
PRETENDED = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
    "utimensat",
)  # fmt: skip
SHELL_NEVER = (
    "socket", "socketpair", "ptrace", "syslog", "pivot_root", "chroot", "acct", "settimeofday",
    "mount", "umount2", "swapon", "swapoff", "reboot", "sethostname", "init_module",
    "delete_module", "finit_module", "quotactl", "clock_settime", "add_key", "request_key",
    "keyctl", "unshare", "setns", "perf_event_open", "name_to_handle_at", "open_by_handle_at",
    "process_vm_readv", "process_vm_writev", "kcmp", "bpf", "userfaultfd", "io_uring_setup",
    "io_uring_enter", "io_uring_register", "open_tree", "move_mount", "fsopen", "fsmount",
    "pidfd_getfd", "mount_setattr", "kexec_load", "iopl", "ioperm", "memfd_create",
    "link", "linkat", "symlink", "symlinkat", "mknod", "mknodat",
)  # fmt: skip

# Where an argument stands in what the filter sees, low half; the high half is 4 further.
FIRST, SECOND, THIRD = 16, 24, 32
FCNTL = (0, 1, 2, 3, 1030)  # F_DUPFD F_GETFD F_SETFD F_GETFL F_DUPFD_CLOEXEC
IOCTL = (0x5401, 0x5450, 0x5451, 0x541B)  # TCGETS FIONCLEX FIOCLEX FIONREAD
NAMESPACES = kernel.NEW_ALL | kernel.NEW_TIME


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class Program(ctypes.Structure):
    """A filter as the kernel takes it."""

    _fields_ = (("len", ctypes.c_uint16), ("filter", ctypes.POINTER(_Filter)))


def job_filter() -> Program | None:
    """For code that needs nothing but memory and its one pipe."""
    return _program(dict.fromkeys(BARE, (ALLOW, ())), REFUSE)


def cell_filter(*, files: bool) -> Program | None:
    """For a session's cells; without `files` none can be opened."""
    rules: dict[str, Rule] = dict.fromkeys(CELL, (ALLOW, ()))
    rules |= {
        "fcntl": (ALLOW, ((SECOND, "in", FCNTL),)),
        "ioctl": (ALLOW, ((SECOND, "in", IOCTL),)),
        # Limits may be read, not set.
        "prlimit64": (ALLOW, ((THIRD, "in", (0,)), (THIRD + 4, "in", (0,)))),
        # glibc then takes clone, whose flags a filter can see.
        "clone3": (refuse(errno.ENOSYS), ()),
    }
    if files:
        rules |= dict.fromkeys(FILES, (ALLOW, ()))
        rules |= {name: (refuse(0), ()) for name in PRETENDED}
    return _program(rules, REFUSE)


def gate_filter() -> Program | None:
    """Asks the keeper about every clone; installed before the cell's own."""
    return _program({"clone": (NOTIFY, ())}, ALLOW)


def shell_filter() -> Program | None:
    """For other people's programs."""
    rules: dict[str, Rule] = dict.fromkeys(SHELL_NEVER, (REFUSE, ()))
    rules |= {
        "clone3": (refuse(errno.ENOSYS), ()),
        "clone": (ALLOW, ((FIRST, "without", (NAMESPACES,)),)),
    }
    return _program(rules, ALLOW)


def install(program: Program, *, listen: bool = False) -> int:
    """Binds this process and all that it starts to the filter, for good.

    Returns:
        the descriptor on which its NOTIFY questions arrive, with `listen`; else 0.
    """
    flags = NEW_LISTENER if listen else 0
    number, operation = ctypes.c_long(kernel.SECCOMP), ctypes.c_long(SET_FILTER)
    done = kernel.LIBC.syscall(number, operation, ctypes.c_long(flags), ctypes.byref(program))
    return kernel.check(done, "seccomp")


def works(program: Program | None, *, listen: bool = False) -> bool:
    """Whether a process can bind itself to the filter here; NO_NEW_PRIVS must be set."""
    if program is None:
        return False
    child = os.fork()
    if child == 0:
        done = 1
        try:
            done = 0 if install(program, listen=listen) >= 0 and os.getpid() > 0 else 1
        finally:
            os._exit(done)
    return os.waitpid(child, 0)[1] == 0


def _program(rules: Mapping[str, Rule], default: int) -> Program | None:
    machine = platform.machine()
    if machine not in ("x86_64", "aarch64"):
        return None
    column = 0 if machine == "x86_64" else 1
    arch = 0xC000003E if machine == "x86_64" else 0xC00000B7
    lines: list[Line] = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, arch), (GIVE, 0, 0, KILL), (LOAD, 0, 0, 0)]
    # The x32 calls of x86_64 are the same calls under other numbers.
    lines += [(AT_LEAST, 0, 1, 0x40000000), (GIVE, 0, 0, REFUSE)]
    for name, (action, checks) in rules.items():
        number = NUMBERS[name][column]
        if number >= 0:
            block = [*_checks(checks), (GIVE, 0, 0, action)]
            lines += [(EQUAL, 0, len(block), number), *block]
    lines.append((GIVE, 0, 0, default))
    array = (_Filter * len(lines))(*(_Filter(*line) for line in lines))
    return Program(len(lines), ctypes.cast(array, ctypes.POINTER(_Filter)))


def _checks(checks: Checks) -> Iterable[Line]:
    for offset, kind, values in checks:
        yield (LOAD, 0, 0, offset)
        if kind == "in":
            yield from ((EQUAL, len(values) - i, 0, v) for i, v in enumerate(values))
        else:
            yield from ((ANY_BIT, 0, 1, v) for v in values)
        yield (GIVE, 0, 0, REFUSE)
