"""The process that model-written cells run in: a namespace, and a loop that only the keeper feeds.

Nothing here is trusted once a cell has run. What the loop needs is bound early, so that a cell
that changes a module by accident does not lose the session.
"""

from __future__ import annotations

import gc
import io
import json
import os
import random
import resource
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from macaron.harness.sandbox.inside import (
        cells,
        filters,
        frames,
        kernel,
        landlock,
        private_root,
        workspace,
    )

    Limits = dict[str, Any]
else:
    import cells
    import filters
    import frames
    import kernel
    import landlock
    import private_root
    import workspace

IN, OUT, GATE = 3, 4, 5
LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/lib", "/lib64", "/nix/store", "/gnu/store")
_send, _receive, _clone = frames.send, frames.receive, kernel.clone
_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False).encode
_decode = json.JSONDecoder().decode


def main(read: int, write: int, gate: socket.socket, limits: Limits) -> NoReturn:
    """Becomes the session's first process; never returns."""
    try:
        _descriptors(read, write, gate.detach())
        _lock_up(limits)
        sys.stdin = io.StringIO()
        gc.enable()
        serve(limits)
    finally:
        os._exit(1)


def serve(limits: Limits) -> None:
    """Answers the keeper until it is killed."""
    space = cells.Space(_ask, limits)
    while True:
        kind, body = _receive(IN)
        if kind == b"F":
            pid = _clone(kernel.FORK)
            if pid:
                _send(OUT, b"F", b"%d" % pid)
            continue
        order = _decode(body.decode())
        if order["seed"] is not None and not space.seeded:
            random.seed(order["seed"])
            space.seeded = True
        _send(OUT, b"D", _encode(space.run(order)).encode())


def _ask(name: str, arguments: dict[str, Any], limit: int) -> Any:
    """A tool's answer, from the host."""
    try:
        body = _encode({"name": name, "arguments": arguments}).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise cells.ToolError(f"{name}: arguments must be JSON values: {error}") from None
    if len(body) > limit:
        raise cells.ToolError(f"{name}: {len(body)} bytes of arguments; {limit} are allowed")
    _send(OUT, b"T", body)
    _, answer = _receive(IN)
    found = _decode(answer.decode())
    if "fault" in found:
        raise cells.ToolError(found["fault"])
    return found["value"]


def _descriptors(read: int, write: int, gate: int) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    # Above all places that they go to, so that none is overwritten before it moved.
    moved = [fd if fd >= 16 else _high(fd) for fd in (null, null, null, read, write, gate)]
    for target, source in enumerate(moved):
        os.dup2(source, target)
    os.closerange(GATE + 1, 1 << 16)


def _high(handle: int) -> int:
    import fcntl

    return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 16)


def _lock_up(limits: Limits) -> None:
    """The last thing that is done with any rights."""
    os.nice(5)
    files = limits["files"]
    os.chdir(workspace.PLACE if files else "/")
    # The keeper's own count is the limit; this one holds if it is held up.
    late = 2 * limits["cpu_s"] + 1
    resource.setrlimit(resource.RLIMIT_CPU, (late, late + 1))
    for kind, value in (
        (resource.RLIMIT_AS, limits["base_bytes"] + limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))
    if limits["namespaces"]:
        # Itself, the keeper, a snapshot and the state before the cell, the three with threads.
        most = 4 + 3 * limits["threads"]
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    kernel.drop_capabilities()
    if limits["landlock"]:
        landlock.confine(_rights() if files else {})
    gate, cell = filters.gate_filter(), filters.cell_filter(files=files)
    assert gate is not None and cell is not None
    listener = filters.install(gate, listen=True)
    ours = socket.socket(fileno=GATE)
    socket.send_fds(ours, [b"."], [listener])
    ours.close()
    os.close(listener)
    most = GATE + limits["open_files"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    filters.install(cell)


def _rights() -> dict[str, int]:
    shown = (*private_root.python_folders(), *LIBRARIES, *private_root.PARTS)
    rights = dict.fromkeys(shown, landlock.LOOK)
    rights |= dict.fromkeys(private_root.DEVICES, landlock.USE)
    return rights | {workspace.PLACE: landlock.OWN}
