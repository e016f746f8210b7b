"""Copies that are on the disk when they return, and one line when the disk is full."""

import os
import shutil
from pathlib import Path

from macaron.files import storage_errors


def copy_file(source: Path, target: Path) -> None:
    """Copies one file to a name that is free."""
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as old, target.open("xb") as new:
            shutil.copyfileobj(old, new)
            new.flush()
            os.fsync(new.fileno())


def copy_tree(source: Path, target: Path) -> None:
    """Copies a folder's files, at any depth, to a name that is free."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            copy_file(path, target / path.relative_to(source))


def replace(source: Path, target: Path) -> None:
    """Copies a file or folder over whatever has the name; not atomic."""
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    (copy_tree if source.is_dir() else copy_file)(source, target)
