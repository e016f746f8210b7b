"""Atomic writes and content digests; a half-written file is never seen under its name."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from macaron.errors import DigestError, StorageError


def canonical_json(value: Any) -> str:
    """One spelling per value: sorted keys, no spaces, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest_bytes(data: bytes) -> str:
    """SHA-256, hex, 64 characters."""
    return hashlib.sha256(data).hexdigest()


def digest_value(value: Any) -> str:
    """SHA-256 of the value's canonical JSON."""
    return digest_bytes(canonical_json(value).encode())


def digest_file(path: Path) -> str:
    """SHA-256 of the file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_tree(folder: Path, pattern: str = "**/*") -> str:
    """SHA-256 over the relative names and digests of the folder's files, in name order."""
    files = sorted(p for p in folder.glob(pattern) if p.is_file())
    return digest_value([[str(p.relative_to(folder)), digest_file(p)] for p in files])


def check_digest(path: Path, expected: str, mend: str = "") -> Path:
    """The path, once its file or folder has the expected digest.

    Raises:
        DigestError: it is missing or differs.
    """
    if not path.exists():
        raise DigestError("is missing", where=str(path), mend=mend or "run the cycle again")
    found = digest_tree(path) if path.is_dir() else digest_file(path)
    if found != expected:
        raise DigestError(
            f"digest is {found[:12]}, recorded as {expected[:12]}",
            where=str(path),
            mend=mend or "restore it, or remove it and run the cycle again",
        )
    return path


@contextmanager
def storage_errors(where: Path) -> Iterator[None]:
    """Turns a full or read-only disk into one line; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError("the disk is full", where=str(where), mend="free space") from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise StorageError(
                "cannot be written", where=str(where), mend="check its owner and mode"
            ) from error
        raise


@contextmanager
def atomic_path(target: Path, mode: int = 0o644) -> Iterator[Path]:
    """A temporary path beside `target` that takes its name when the block ends well."""
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.chmod(mode)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def write_atomic(target: Path, data: str | bytes) -> Path:
    """Writes the whole content under the name, or nothing."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)
    return target


def write_json(target: Path, value: Any) -> Path:
    """Readable JSON with sorted keys, written atomically."""
    return write_atomic(
        target, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    )


def read_json(path: Path) -> Any:
    """The JSON value in the file.

    Raises:
        DigestError: what the file holds is no JSON: it was cut or edited.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DigestError(
            f"not JSON: {error}", where=str(path), mend="restore it, or move it away"
        ) from error


def read_lines(path: Path) -> list[str]:
    """The lines of a JSONL file, without their ends."""
    # Not splitlines(): it also splits at U+2028 and U+0085, which JSON leaves in strings.
    with path.open(encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r\n") for line in file]


def read_jsonl(path: Path) -> list[Any]:
    """The JSON value of each line."""
    return [json.loads(line) for line in read_lines(path)]


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    """One JSON value a line, keys sorted, written atomically."""
    lines = (json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)
    return write_atomic(path, "".join(lines))
