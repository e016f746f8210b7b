"""A root folder of its own: Python's library and the system's programs, read-only, and no more.

Built once for all sessions; each then gets a /tmp of its own on it. What must be shown depends on
where this Python lives and is found when it is built.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from macaron.harness.sandbox.inside import kernel
else:
    import kernel

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store")
# How the loader finds libraries, and where Debian's links to its programs point.
PARTS = ("/etc/ld.so.cache", "/etc/alternatives")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# What a person installed: the project may be there.
HIDDEN = ("/usr/local", "/usr/src")
PACKAGES = ("site-packages", "dist-packages")
LIBRARY = os.path.dirname(os.__file__)


def python_folders() -> list[str]:
    """Folders of Python's own library and of the C libraries beside it."""
    found = [*sys.path, LIBRARY, os.path.join(sys.base_prefix, "lib")]
    there = {os.path.abspath(path) for path in found if os.path.isdir(path)}
    return sorted(path for path in there if not any(_inside(path, t) for t in there - {path}))


def build(folder: str) -> None:
    """Builds the root in the folder and makes it this process's own.

    Needs a mount namespace of its own.

    Raises:
        OSError: the host does not allow it; the process may then have a root half built, unseen.
    """
    kernel.mount("", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    guard = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", folder, "tmpfs", guard, "mode=755,size=4m")
    python = python_folders()
    locked = list(_show(folder, SYSTEM))
    for path in HIDDEN:
        _hide(folder + path)
    locked += _show(folder, (path for path in python if not _shown(path)))
    for path in _packages(python):
        _hide(folder + path)
    locked += _show(folder, PARTS)
    for path in locked:
        kernel.lock_mount(path, kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NODEV)
    for path in _show(folder, DEVICES):
        kernel.lock_mount(path, kernel.ATTR_RDONLY | kernel.ATTR_NOSUID)
    os.makedirs(f"{folder}/tmp", exist_ok=True)
    kernel.enter_root(folder)
    kernel.lock_mount("/", kernel.ATTR_RDONLY, deep=False)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _shown(path: str) -> bool:
    """Whether the path can be seen as a part of the system."""
    return any(_inside(path, s) for s in SYSTEM) and not any(_inside(path, h) for h in HIDDEN)


def _show(folder: str, paths: Iterable[str]) -> Iterator[str]:
    """Binds each path that exists at the same place; yields the mounts."""
    for path in paths:
        target = folder + path
        if path in SYSTEM and os.path.islink(path):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.symlink(os.readlink(path), target)
        elif os.path.isdir(path):
            os.makedirs(target, exist_ok=True)
            kernel.mount(path, target, flags=kernel.MS_BIND | kernel.MS_REC)
            yield target
        elif os.path.exists(path):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
            kernel.mount(path, target, flags=kernel.MS_BIND)
            yield target


def _packages(python: list[str]) -> Iterator[str]:
    """Folders of installed packages within what is shown."""
    library = [LIBRARY, "/usr/lib/python3", *(f"{path}/python3" for path in python)]
    for place in dict.fromkeys(library):
        yield from (f"{place}/{name}" for name in PACKAGES)
    for path in python:
        for name in sorted(os.listdir(path)):
            if name.startswith("python"):
                yield from (f"{path}/{name}/{kind}" for kind in PACKAGES)


def _hide(path: str) -> None:
    if os.path.isdir(path):
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        kernel.mount("tmpfs", path, "tmpfs", flags, "mode=755,size=1m")
