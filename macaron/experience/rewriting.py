"""Writing a file again without what is to be forgotten: whole, then under its name."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from macaron.experience.doomed import Doomed
from macaron.experience.store import sync_folder
from macaron.files import storage_errors

SUFFIX = ".forgetting"


def rewrite(path: Path, doomed: Doomed, dry_run: bool = False) -> int:
    """Takes the doomed lines or rows out of a log, JSONL or Parquet file; how many they are."""
    if not path.exists():
        return 0
    if path.suffix == ".parquet":
        return _parquet(path, doomed, dry_run)
    return _lines(path, doomed.line if path.suffix == ".log" else _refused(doomed), dry_run)


def _lines(path: Path, goes: Callable[[bytes], bool], dry_run: bool) -> int:
    lines = path.read_bytes().split(b"\n")
    kept = [line for line in lines if not (line and goes(line))]
    gone = len(lines) - len(kept)
    if gone and not dry_run:
        _replace(path, b"\n".join(kept))
    return gone


def _refused(doomed: Doomed) -> Callable[[bytes], bool]:
    """Of a quarantine's lines, `{"line", "reason", "raw"}`: the raw text is what was refused."""

    def goes(line: bytes) -> bool:
        try:
            raw = str(json.loads(line)["raw"])
        except (ValueError, KeyError, TypeError):
            raw = line.decode(errors="backslashreplace")
        return doomed.text(raw)

    return goes


def _parquet(path: Path, doomed: Doomed, dry_run: bool) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table: Any = pq.ParquetFile(path).read()
    wanted = pa.array(sorted(doomed.sessions), pa.string())
    kept = table.filter(pc.invert(pc.is_in(table["session"], value_set=wanted)))
    gone = int(table.num_rows - kept.num_rows)
    if gone and not dry_run:
        buffer = pa.BufferOutputStream()
        pq.write_table(kept, buffer)
        _replace(path, buffer.getvalue().to_pybytes())
    return gone


def _replace(path: Path, data: bytes) -> None:
    """Keeps the file's mode; a fixed name beside it, so that a rerun clears what a kill left."""
    temporary = path.with_name(path.name + SUFFIX)
    with storage_errors(path):
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, path.stat().st_mode)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
