"""The server of namespaces: builds what all sessions share, and forks a keeper for each.

Started by `namespace_server.py`. It runs no code of a model, and ends with its host. Python's
library is loaded once in here, so that a session begins with it.
"""

from __future__ import annotations

import base64  # noqa: F401
import bisect  # noqa: F401
import calendar  # noqa: F401
import collections  # noqa: F401
import copy  # noqa: F401
import csv  # noqa: F401
import dataclasses  # noqa: F401
import datetime  # noqa: F401
import decimal  # noqa: F401
import enum  # noqa: F401
import fractions  # noqa: F401
import functools  # noqa: F401
import gc
import hashlib  # noqa: F401
import heapq  # noqa: F401
import io  # noqa: F401
import itertools  # noqa: F401
import json
import math  # noqa: F401
import operator  # noqa: F401
import os
import random  # noqa: F401
import re  # noqa: F401
import resource
import select
import signal
import socket
import statistics  # noqa: F401
import string  # noqa: F401
import sys
import textwrap  # noqa: F401
import time  # noqa: F401
import typing  # noqa: F401

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from macaron.harness.sandbox.inside import (
        cells,
        filters,
        frames,
        keeper,
        kernel,
        landlock,
        private_root,
        workspace,
    )
else:
    import cells
    import filters
    import frames
    import keeper
    import kernel
    import landlock
    import private_root
    import workspace

# Else the private root would show it.
del sys.path[0]

NOBODY = 65534
SPACES = kernel.NEW_ALL | signal.SIGCHLD


class Zygote:
    """What is shared: the root, the level, and the way to begin a session."""

    def __init__(self, without: list[str]) -> None:
        self._without = without
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        with open("/proc/self/statm") as file:
            self._base = int(file.read().split()[0]) * resource.getpagesize()
        self.level = ["rlimits"]
        self._shut_in()

    def _shut_in(self) -> None:
        """Isolates this process as far as the host allows, and finds what sessions can have."""
        root = self._wants("private-root") and os.geteuid() == 0 and self._build(kernel.NEW_NS)
        if os.geteuid() == 0 and self._wants("nobody") and self._give_up_root():
            self.level.append("nobody")
        if not root and self._wants("private-root") and self._wants("namespaces"):
            root = self._build(kernel.NEW_NS | kernel.NEW_USER)
        kernel.prctl(kernel.NO_NEW_PRIVS, 1)
        if self._wants("namespaces") and self._spaces_work():
            self.level.append("namespaces")
            if root:
                self.level.append("private-root")
        if self._wants("landlock") and landlock.version():
            self.level.append("landlock")
        if self._wants("seccomp") and _filters_work():
            self.level.append("seccomp")

    def _wants(self, name: str) -> bool:
        return name not in self._without

    def _build(self, flags: int) -> bool:
        user, group = os.geteuid(), os.getegid()
        try:
            kernel.unshare(flags)
            if flags & kernel.NEW_USER:
                kernel.map_self("self", user, group)
            private_root.build(os.getcwd())
        except OSError:
            return False
        return True

    def _give_up_root(self) -> bool:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        except OSError:
            return False
        # Else its own /proc files, in which user namespaces are set up, would be root's.
        kernel.prctl(kernel.DUMPABLE, 1)
        return True

    def _spaces_work(self) -> bool:
        """Whether a session can have namespaces of its own, tried out."""
        try:
            pid, go = self._fork(spaces=True)
        except OSError:
            return False
        if pid == 0:
            os._exit(0 if _go(go) and os.getpid() == 1 else 1)
        return os.waitpid(pid, 0)[1] == 0

    def _fork(self, *, spaces: bool) -> tuple[int, int]:
        """A child that waits for `_go`, its users mapped; (0, its end of the pipe) in the child."""
        read, write = os.pipe()
        pid = kernel.clone(SPACES if spaces else signal.SIGCHLD)
        if pid == 0:
            os.close(write)
            return 0, read
        os.close(read)
        try:
            if spaces:
                kernel.map_self(str(pid), os.geteuid(), os.getegid(), self._proc)
            os.write(write, b".")
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        finally:
            os.close(write)
        return pid, -1

    def begin(self, limits: dict[str, Any], host: int, control: int) -> None:
        """Forks a keeper that speaks with the host on the descriptor."""
        spaces, files = "namespaces" in self.level, "private-root" in self.level
        pid, go = self._fork(spaces=spaces)
        if pid:
            frames.send(host, b"P", str(pid).encode())
            return
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(control)
            os.close(self._proc)
            kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
            if not _go(go):
                os._exit(1)
            if files:
                self._mount(limits["folder_bytes"])
            limits |= {"base_bytes": self._base, "namespaces": spaces, "files": files}
            limits |= {"landlock": "landlock" in self.level}
            if not spaces:
                # Nothing else could count them.
                limits["threads"] = 0
            _more_files()
            keeper.Keeper(host, limits).serve(self.level)
        except OSError as error:
            frames.send(host, b"X", json.dumps({"error": str(error)}).encode())
        finally:
            os._exit(1)

    def _mount(self, size: int) -> None:
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        data = f"mode=700,size={size},nr_inodes={workspace.FILES}"
        kernel.mount("tmpfs", workspace.PLACE, "tmpfs", flags, data)


def main() -> None:
    """Serves until the host ends or hangs up."""
    config = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=config["control"])
    host = os.pidfd_open(config["host"])
    if os.getppid() != config["host"]:
        return
    zygote = Zygote(config["without"])
    _forget_paths()
    # The first compilation of a process builds the parser's types: no session should pay for it.
    cells.Space(lambda *_: None, {"flood_chars": 9}).run({"code": "1", "tools": {}, "chars": 9})
    sys.stdout = sys.__stdout__
    gc.collect()
    gc.disable()
    gc.freeze()
    control.send(json.dumps(zygote.level).encode())
    _serve(zygote, control, host)


def _serve(zygote: Zygote, control: socket.socket, host: int) -> None:
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(host, select.POLLIN)
    children = _children()
    poller.register(children, select.POLLIN)
    while True:
        ready = dict(poller.poll())
        if children in ready:
            os.read(children, 1 << 12)
            _reap()
        if host in ready:
            return
        if control.fileno() in ready:
            order, handles, _, _ = socket.recv_fds(control, 1 << 16, 1)
            if not order:
                return
            try:
                zygote.begin(json.loads(order), handles[0], control.fileno())
            except OSError as error:
                frames.send(handles[0], b"X", json.dumps({"error": str(error)}).encode())
            finally:
                os.close(handles[0])


def _children() -> int:
    """A descriptor that can be read when a child has ended."""
    read, write = os.pipe()
    for handle in (read, write):
        os.set_blocking(handle, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write)
    return read


def _filters_work() -> bool:
    cell, gate = filters.cell_filter(files=True), filters.gate_filter()
    return filters.works(cell) and filters.works(gate, listen=True)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _go(read: int) -> bool:
    """Waits for the parent's word that this process is set up."""
    word = os.read(read, 1)
    os.close(read)
    return word == b"."


def _more_files() -> None:
    # A tree of files is walked with a descriptor for each level.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _forget_paths() -> None:
    """Where this project and its environment lie is not the sessions' business."""
    os.environ.clear()
    sys.argv, sys.orig_argv, sys.executable = [""], [], ""
    sys.prefix, sys.exec_prefix = sys.base_prefix, sys.base_exec_prefix
    here = os.path.dirname(__file__)
    for module in list(sys.modules.values()):
        if str(getattr(module, "__file__", "")).startswith(here):
            module.__file__ = None
            module.__dict__.pop("__cached__", None)


if __name__ == "__main__":
    main()
