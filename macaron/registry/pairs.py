"""The pairs on this disk: one folder a pair, named by its id; it appears whole or not at all."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.contract.verdict import Verdict
from macaron.errors import DigestError, RegistryError
from macaron.files import digest_tree, read_json, storage_errors, write_json
from macaron.hcp import changes
from macaron.hcp.document import load_hcp
from macaron.pair import (
    HCP_FILE,
    MANIFEST,
    TOOLS,
    VERDICT,
    Pair,
    adapter_path,
    how_to_restore,
    load_pair,
    load_pool,
)
from macaron.pool.packed import Packed, load_packed
from macaron.registry.copy import copy_file, copy_tree
from macaron.registry.lock import exclusive

WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True)
class Difference:
    """One part in which two pairs differ."""

    part: str
    """`base`, `adapters.<specialist>`, `hcp.<dotted field>`, `tools.<name>` or
    `demoted.<name>.<digest>`."""
    old: Any
    """None where the first pair lacks it."""
    new: Any

    def __str__(self) -> str:
        return f"{self.part}: {_short(self.old)} -> {_short(self.new)}"


class PairStore:
    """The folder of pairs.

    Args:
        folder: `models/pairs`; made at the first write.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder

    def create(
        self,
        base: str,
        adapters: Mapping[str, Path],
        hcp_file: Path,
        parent: str | None,
        generation: int,
        tools: Path | None = None,
    ) -> Pair:
        """Copies the parts into a new pair; the same parts again give the pair that is there.

        Args:
            base: digest of the base's weights.
            adapters: specialist -> folder of its adapter (PEFT layout, safetensors).
            hcp_file: the HCP document.
            parent: id of the pair that this one was made from; None for an ancestor.
            generation: depth below the ancestor, which is 0.
            tools: folder of the pool that it carries; None where it has none.

        Raises:
            DigestError: an adapter's file is missing or holds no weights, or the pool is damaged.
            RegistryError: parent and generation do not fit each other.
        """
        if (parent is None) != (generation == 0):
            raise RegistryError(f"a pair of parent {parent} cannot be generation {generation}")
        for specialist, source in adapters.items():
            _check_weights(source / WEIGHTS, specialist)
        revisions = {name: digest_tree(source) for name, source in sorted(adapters.items())}
        pool = {} if tools is None else _pool_parts(tools)
        pair = Pair(base, revisions, load_hcp(hcp_file).digest, parent, generation, **pool)
        with exclusive(self.root / ".lock"):
            if not (self.root / pair.id).exists():
                self._write(pair, adapters, hcp_file, tools)
        return self.get(pair.id)

    def _write(
        self, pair: Pair, adapters: Mapping[str, Path], hcp_file: Path, tools: Path | None
    ) -> None:
        # Under the lock, so whatever is here was left by a process that died.
        new = self.root / ".new"
        shutil.rmtree(new, ignore_errors=True)
        with storage_errors(new):
            for specialist, source in adapters.items():
                copy_tree(source, adapter_path(new, specialist))
            copy_file(hcp_file, new / HCP_FILE)
            if tools is not None:
                copy_tree(tools, new / TOOLS)
            write_json(new / MANIFEST, pair.to_json())
            _check_pair(new)
            new.rename(self.root / pair.id)

    def resolve(self, prefix: str) -> str:
        """The one id that begins so.

        Raises:
            RegistryError: none or several do.
        """
        ids = [pair.id for pair in self.list() if prefix and pair.id.startswith(prefix)]
        if len(ids) == 1 or prefix in ids:
            return prefix if prefix in ids else ids[0]
        what = f"{prefix!r} names several pairs: {', '.join(ids)}" if ids else "no such pair"
        raise RegistryError(what, where=prefix, mend="`macaron pairs list` shows those there are")

    def folder(self, prefix: str) -> Path:
        """The folder of the pair whose id begins so."""
        return self.root / self.resolve(prefix)

    def get(self, prefix: str) -> Pair:
        """The pair whose id begins so, once all its parts have the digests of its manifest."""
        folder = self.folder(prefix)
        pair = _check_pair(folder)
        if pair.id != folder.name:
            raise DigestError(
                f"holds pair {pair.id}", where=str(folder), mend=how_to_restore(folder.name)
            )
        return pair

    def restore(self, source: Path) -> Pair:
        """Puts a pair's folder back as it is elsewhere, in place of what is here.

        Args:
            source: a whole copy of the pair; every part of it is checked first.
        """
        pair = _check_pair(source)
        folder, new, old = self.root / pair.id, self.root / ".new", self.root / ".old"
        with exclusive(self.root / ".lock"), storage_errors(self.root):
            for left in (new, old):
                shutil.rmtree(left, ignore_errors=True)
            copy_tree(source, new)
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
            shutil.rmtree(old, ignore_errors=True)
        return self.get(pair.id)

    def manifest(self, prefix: str) -> Pair:
        """The pair as its manifest has it; no other file is read."""
        return _manifest(self.folder(prefix) / MANIFEST)

    def list(self) -> list[Pair]:
        """All pairs, the ancestor first; reads manifests only."""
        pairs = [_manifest(path) for path in self.root.glob(f"[!.]*/{MANIFEST}")]
        return sorted(pairs, key=lambda pair: (pair.generation, pair.id))

    def ancestry(self, prefix: str) -> tuple[str, ...]:
        """The pair's id and those of its ancestors, the pair first, as far as they are here."""
        known = {pair.id: pair for pair in self.list()}
        line, here = [self.resolve(prefix)], known[self.resolve(prefix)]
        while here.parent is not None:
            line.append(here.parent)
            if here.parent not in known or here.parent in line[:-1]:
                break
            here = known[here.parent]
        return tuple(line)

    def has_pool(self, prefix: str) -> bool:
        """Whether a pair carries tools, or should."""
        folder = self.folder(prefix)
        return (folder / TOOLS).exists() or _manifest(folder / MANIFEST).pool is not None

    def pool(self, prefix: str) -> Packed | None:
        """The tools that a pair carries; None where it carries none."""
        return load_pool(self.folder(prefix))

    def attach_verdict(self, prefix: str, verdict: Verdict) -> Path:
        """Writes the pair's verdict; the same one again changes nothing.

        Raises:
            RegistryError: the verdict is of another pair, or the pair already has another one:
                a pair that may be judged until it passes would pass by luck.
        """
        pair_id = self.resolve(prefix)
        if verdict.challenger not in (None, pair_id):
            raise RegistryError(f"the verdict is of pair {verdict.challenger}", where=pair_id)
        with exclusive(self.root / ".lock"):
            there = self.verdict(pair_id)
            if there not in (None, verdict):
                raise RegistryError(
                    "the pair already has another verdict",
                    where=pair_id,
                    mend="a pair is judged once; train a new challenger",
                )
            return write_json(self.root / pair_id / VERDICT, verdict.to_json())

    def verdict(self, prefix: str) -> Verdict | None:
        """The pair's verdict; None for a pair that was never judged."""
        path = self.folder(prefix) / VERDICT
        return Verdict.from_json(read_json(path), str(path)) if path.exists() else None

    def diff(self, first: str, second: str) -> Sequence[Difference]:
        """What differs, part by part, and in the HCP field by field."""
        folders = self.folder(first), self.folder(second)
        old, new = (_parts(_check_pair(folder)) | _tools(load_pool(folder)) for folder in folders)
        parts = [
            Difference(part, old.get(part), new.get(part))
            for part in sorted(old.keys() | new.keys())
            if old.get(part) != new.get(part)
        ]
        before, after = (load_hcp(folder / HCP_FILE) for folder in folders)
        fields = [
            Difference(f"hcp.{change.field}", _present(change.old), _present(change.new))
            for change in changes.diff(before, after)
        ]
        return [*parts, *fields]


def _manifest(path: Path) -> Pair:
    return Pair.from_json(read_json(path), str(path))


def _check_pair(folder: Path) -> Pair:
    pair = load_pair(folder)
    found = load_hcp(folder / HCP_FILE).digest
    if found != pair.hcp:
        raise DigestError(
            f"digest is {found[:12]}, recorded as {pair.hcp[:12]}",
            where=str(folder / HCP_FILE),
            mend=how_to_restore(folder.name),
        )
    return pair


def _check_weights(path: Path, specialist: str) -> None:
    """An adapter saved from sharded parameters can be a valid file of nothing."""
    from safetensors import SafetensorError, safe_open

    mend = "train it again"
    if not path.exists():
        raise DigestError(f"the adapter of {specialist} is missing", where=str(path), mend=mend)
    try:
        with safe_open(path, framework="numpy") as tensors:
            shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
    except SafetensorError as error:
        raise DigestError(f"no safetensors file: {error}", where=str(path), mend=mend) from error
    if not shapes or not all(all(shape) for shape in shapes):
        raise DigestError(f"the adapter of {specialist} is empty", where=str(path), mend=mend)


def _parts(pair: Pair) -> dict[str, str]:
    adapters = {f"adapters.{name}": revision for name, revision in pair.adapters.items()}
    return {"base": pair.base, **adapters}


def _tools(pool: Packed | None) -> dict[str, str]:
    """What can be called, by its digest, and what was demoted, by its reason."""
    if pool is None:
        return {}
    tools = {f"tools.{name}": tool.digest for name, tool in pool.tools.items()}
    demoted = {
        f"demoted.{tool.name}.{digest[:12]}": pool.reasons[digest]
        for digest, tool in pool.demoted.items()
    }
    return tools | demoted


def _pool_parts(tools: Path) -> dict[str, str]:
    return {"pool": load_packed(tools).digest, "pool_files": digest_tree(tools)}


def _present(value: Any) -> Any:
    return None if value is changes.ABSENT else value


def _short(value: Any) -> str:
    """Digests by their first twelve characters, as everywhere."""
    if isinstance(value, str) and len(value) == 64:
        return value[:12]
    return "none" if value is None else repr(value)
