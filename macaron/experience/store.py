"""The experience store: Parquet files by day, each named by its content and never changed.

A row lies in the day it became known: its own, or that of its latest feedback. The same rows
written twice are one file; a row written again with later feedback replaces the earlier one on
read.
"""

import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from macaron.errors import DigestError
from macaron.experience.redaction import redact
from macaron.experience.schema import SCHEMA, Source, Trajectory
from macaron.experience.table import check_schema, from_table, to_table
from macaron.files import digest_bytes, digest_file, write_atomic

logger = logging.getLogger(__name__)

_NAME_LENGTH = 32
_TRIES = 5
_DAY = pa.schema([pa.field("day", pa.string())])


@dataclass(frozen=True)
class Stats:
    """What a store holds; each turn counted once."""

    rows: int
    by_source: dict[str, int]
    by_specialist: dict[str, int]
    by_day: dict[str, int]
    """Day of the turn -> rows."""
    with_feedback: int
    with_reward: int
    """Rows whose reward is valid."""
    files: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


class ExperienceStore:
    """The Parquet partitions under one folder, which need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, trajectories: Sequence[Trajectory]) -> list[Path]:
        """Redacts the rows and writes them, one file a day; on return they are on the disk.

        Raises:
            ExperienceError: a row does not fit the schema; nothing is written then.
            StorageError: the disk is full or read-only.
        """
        redacted = redact(trajectories)
        if redacted.changed:
            logger.info(
                "redacted %d rows (%s), of which %d lost their token ids",
                redacted.changed,
                redacted.found,
                redacted.untokened,
            )
        table = _once(to_table(redacted.rows))
        days = pc.cast(pc.cast(_known_at(table), pa.date32()), pa.string())
        return [
            self._write(day, table.filter(pc.equal(days, day)))
            for day in sorted(pc.unique(days).to_pylist())
        ]

    def read(
        self, since: datetime | None = None, sources: Collection[Source] | None = None
    ) -> pa.Table:
        """The rows that became known at `since` or later, each id once, by time and id.

        Args:
            since: a moment with a time zone; None for all.
            sources: only rows from these; None for all.

        Raises:
            DigestError: a file is not what its name says.
            ExperienceError: a file has another schema.
        """
        keep = None if sources is None else _is_in("source", sources)
        table = _once(self._load(SCHEMA.names, keep, since))
        if since is not None:
            moment = pa.scalar(since.astimezone(UTC), pa.timestamp("us", tz="UTC"))
            table = table.filter(pc.greater_equal(_known_at(table), moment))
        return table.sort_by([("created_at", "ascending"), ("id", "ascending")])

    def find(self, ids: Collection[str]) -> dict[str, Trajectory]:
        """The stored rows among these ids."""
        if not ids:
            return {}
        table = _once(self._load(SCHEMA.names, _is_in("id", ids)))
        return {row.id: row for row in from_table(table)}

    def turns_of(self, sessions: Collection[str]) -> set[str]:
        """Ids of the stored rows of these sessions."""
        table = self._load(["id", "session"], _is_in("session", sessions))
        return set(table["id"].to_pylist())

    def remove(self, sessions: Collection[str]) -> int:
        """Deletes the rows of these sessions; killed anywhere, no other row is lost.

        A file is written again without them before it is removed.

        Returns:
            How many files held any.

        Raises:
            DigestError: a file is not what its name says.
        """
        wanted = pa.array(sorted(sessions), pa.string())
        held = [path for path in self._files() if _holds(path, wanted)]
        for path in held:
            table = self._load_file(path)
            kept = table.filter(pc.invert(pc.is_in(table["session"], value_set=wanted)))
            if kept.num_rows:
                self._write(path.parent.name.removeprefix("day="), kept)
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
        return len(held)

    def stats(self) -> Stats:
        """Counts over all rows, and the size on the disk."""
        names = ["id", "source", "created_at", "specialist", "reward_valid", "feedback"]
        table = _once(self._load(names))
        days = pc.cast(pc.cast(table["created_at"], pa.date32()), pa.string())
        files = self._files()
        return Stats(
            rows=table.num_rows,
            by_source=_counts(table["source"]),
            by_specialist=_counts(table["specialist"]),
            by_day=_counts(days),
            with_feedback=pc.sum(pc.is_valid(table["feedback"])).as_py() or 0,
            with_reward=pc.sum(table["reward_valid"]).as_py() or 0,
            files=len(files),
            bytes=sum(file.stat().st_size for file in files),
        )

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("day=*/part-*.parquet"))

    def _write(self, day: str, table: pa.Table) -> Path:
        buffer = pa.BufferOutputStream()
        pq.write_table(table.sort_by("id").combine_chunks(), buffer, compression="zstd")
        data = buffer.getvalue().to_pybytes()
        path = self.folder / f"day={day}" / f"part-{digest_bytes(data)[:_NAME_LENGTH]}.parquet"
        if not (path.exists() and _named_by_content(path)):
            write_atomic(path, data)
            sync_folder(path.parent)
        return path

    def _load_file(self, path: Path) -> Any:
        table = pq.ParquetFile(path).read()
        check_schema(table.schema, str(path))
        return table

    def _load(self, names: Sequence[str], keep: Any = None, since: datetime | None = None) -> Any:
        for _ in range(_TRIES):
            try:
                return self._load_all(names, keep, since)
            except FileNotFoundError as error:
                # Forgetting replaced it meanwhile; what stays is in another one by now.
                logger.info("reading the experience again: %s is gone", error.filename or error)
        return self._load_all(names, keep, since)

    def _load_all(self, names: Sequence[str], keep: Any, since: datetime | None) -> Any:
        if not (files := self._files()):
            return SCHEMA.empty_table().select(names)
        dataset = ds.dataset(
            [str(file) for file in files],
            schema=pa.schema([*SCHEMA, *_DAY], metadata=SCHEMA.metadata),
            format="parquet",
            partitioning=ds.partitioning(_DAY, flavor="hive"),
            partition_base_dir=str(self.folder),
        )
        pruning = since and pc.field("day") >= since.astimezone(UTC).date().isoformat()
        tables = [SCHEMA.empty_table().select(names)]
        for fragment in dataset.get_fragments(filter=pruning):
            _check(fragment)
            tables.append(fragment.to_table(schema=dataset.schema, columns=names, filter=keep))
        return pa.concat_tables(tables)


def sync_folder(folder: Path) -> None:
    """Makes the folder's entries as lasting as the files they name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_in(name: str, values: Collection[str]) -> Any:
    return pc.field(name).isin(pa.array(sorted(values), pa.string()))


def _check(fragment: Any) -> None:
    path = Path(fragment.path)
    if not _named_by_content(path):
        raise _changed(path)
    check_schema(fragment.physical_schema, str(path))


def _holds(path: Path, sessions: pa.Array) -> bool:
    if not _named_by_content(path):
        raise _changed(path)
    found = pq.read_table(path, columns=["session"], partitioning=None)["session"]
    return bool(pc.any(pc.is_in(found, value_set=sessions)).as_py())


def _changed(path: Path) -> DigestError:
    return DigestError(
        "content is not what the file's name says",
        where=str(path),
        mend="restore it with `dvc pull`, or remove it",
    )


def _named_by_content(path: Path) -> bool:
    return path.stem == f"part-{digest_file(path)[:_NAME_LENGTH]}"


def _known_at(table: pa.Table) -> Any:
    created, feedback_at = table["created_at"], pc.struct_field(table["feedback"], "at")
    return pc.if_else(pc.fill_null(pc.greater(feedback_at, created), False), feedback_at, created)


def _once(table: pa.Table) -> pa.Table:
    """Each id once: the row with the latest feedback, and of equals the first."""
    said = pc.cast(pc.is_valid(table["feedback"]), pa.int8())
    keys = pa.table({"id": table["id"], "known": _known_at(table), "said": said})
    latest = [("id", "ascending"), ("known", "descending"), ("said", "descending")]
    order = pc.sort_indices(keys, latest)
    ids = keys["id"].take(order).combine_chunks()
    if len(ids) < 2:
        return table
    first = pa.concat_arrays([pa.array([True]), pc.not_equal(ids[1:], ids[:-1])])
    return table.take(order.filter(first))


def _counts(column: Any) -> dict[str, int]:
    return {
        entry["values"]: entry["counts"]
        for entry in sorted(pc.value_counts(column).to_pylist(), key=lambda e: str(e["values"]))
    }
