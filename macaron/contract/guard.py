"""The contract is read-only to the loop.

Two means: `check_unchanged` compares the contract's digest with the one taken at the cycle's
start, and that is the proof; `read_only` refuses writes by this process while a cycle runs, which
only guards against mistakes (a subprocess, or code that means harm, is not held by it).
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from macaron.contract.document import Contract, load_contract
from macaron.errors import ConfigError, DigestError

_protected: list[Path] = []
_lock = Lock()
_installed = False

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def check_unchanged(path: Path, digest: str) -> Contract:
    """The contract in the file, once its values have the digest taken at the cycle's start.

    Raises:
        DigestError: the contract changed while the cycle ran.
    """
    contract = load_contract(path)
    if contract.digest != digest:
        raise DigestError(
            f"the contract changed during the cycle: {digest[:12]} at its start, "
            f"{contract.digest[:12]} now",
            where=str(path),
            mend="put it back, or start a new cycle under the new contract",
        )
    return contract


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Refuses every write under the folder by this process, in all its threads, until the end.

    Raises:
        ConfigError: from the call that tried to write, rename or remove.
    """
    _install()
    name = folder.resolve()
    with _lock:
        _protected.append(name)
    try:
        yield
    finally:
        with _lock:
            _protected.remove(name)


def _install() -> None:
    """Once a process: an audit hook cannot be taken off again, so it reads a list instead."""
    global _installed
    with _lock:
        if not _installed:
            sys.addaudithook(_hook)
            _installed = True


# Event -> (position of a path, position of the descriptor of the folder it is relative to).
_WRITES: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((1, 3),),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.utime": ((0, 3),),
    "shutil.rmtree": ((0, 1),),
}
_TAKES_AWAY = ("os.rename", "os.rmdir", "shutil.rmtree")


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _protected:
        return
    if event == "open" and _writes(args[1], args[2]):
        _refuse(event, args[0], None)
    for path, folder in _WRITES.get(event, ()):
        _refuse(event, args[path], None if folder is None else args[folder])


def _writes(mode: str | None, flags: int) -> bool:
    return bool(set(mode) & set("wxa+") if mode else flags & _WRITE_FLAGS)


def _refuse(event: str, name: object, folder: int | None) -> None:
    if not isinstance(name, str | bytes | os.PathLike):
        return  # An open descriptor, which was refused when it was opened.
    path = Path(os.fsdecode(name))
    if folder is not None and folder >= 0:
        path = Path(f"/proc/self/fd/{folder}").resolve() / path
    path = path.absolute()
    # A rename or removal touches a link itself, a write what it points to: both count.
    spots = {path.parent.resolve() / path.name, path.resolve()}
    for protected in tuple(_protected):
        inside = any(spot.is_relative_to(protected) for spot in spots)
        # Taking away a folder above would take the contracts away as well.
        above = event in _TAKES_AWAY and any(protected.is_relative_to(spot) for spot in spots)
        if inside or above:
            raise ConfigError(
                "the loop may not write here: contracts are read-only to it",
                where=str(path),
                mend="change contracts by hand, between cycles",
            )
