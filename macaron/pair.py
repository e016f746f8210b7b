"""The pair: base + one adapter revision per specialist + one HCP, and the tools that it made.

A pair is named by its parts alone: the same parts give the same id, on any machine and any day.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from macaron.errors import DigestError
from macaron.files import check_digest, digest_file, digest_value, read_json
from macaron.pool.packed import Packed, load_packed

MANIFEST = "manifest.json"
ADAPTERS = "adapters"
HCP_FILE = "hcp.toml"
VERDICT = "verdict.json"
TOOLS = "tools"


@dataclass(frozen=True)
class Pair:
    """The manifest of one pair."""

    base: str
    """Digest of the base's weights."""
    adapters: Mapping[str, str]
    """Specialist -> adapter revision, the digest of its folder."""
    hcp: str
    """Digest of the HCP's values."""
    parent: str | None
    """Id of the pair it was made from; None for the ancestor."""
    generation: int
    """Depth below the ancestor, which is 0."""
    pool: str | None = None
    """Digest of its tools: what can be called and what was demoted; None where it has none."""
    pool_files: str | None = None
    """Digest of the folder `tools`, the evidence for them included."""

    @property
    def id(self) -> str:
        """16 hex characters over base, adapters, HCP and, where there is one, pool."""
        parts = {"base": self.base, "adapters": dict(self.adapters), "hcp": self.hcp}
        if self.pool is not None:
            parts["pool"] = self.pool
        return digest_value(parts)[:16]

    def to_json(self) -> dict[str, Any]:
        """The manifest file's value; schema 2 where there is a pool."""
        value = asdict(self)
        if self.pool is None:
            del value["pool"], value["pool_files"]
        return {"schema": 1 if self.pool is None else 2, "id": self.id, **value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "Pair":
        """The pair in a manifest.

        Raises:
            DigestError: a key is missing or unknown, or the id is not that of the parts.
        """
        keys = {"schema", "id", "base", "adapters", "hcp", "parent", "generation"}
        if value.get("schema") == 2:
            keys |= {"pool", "pool_files"}
        if set(value) != keys or value["schema"] not in (1, 2):
            odd = sorted(keys.symmetric_difference(value)) or [f"schema {value['schema']}"]
            raise DigestError(f"manifest has the wrong keys: {odd}", where=where)
        pair = cls(**{k: v for k, v in value.items() if k not in ("schema", "id")})
        if pair.id != value["id"]:
            raise DigestError(
                f"manifest says {value['id']}, its parts make {pair.id}",
                where=where,
                mend=how_to_restore(value["id"]),
            )
        return pair


def adapter_path(folder: Path, specialist: str) -> Path:
    """Where a pair's folder keeps one specialist's adapter."""
    return folder / ADAPTERS / specialist


def load_pair(folder: Path) -> Pair:
    """The pair in a folder, once every adapter in it has the digest the manifest gives.

    The HCP's digest is over its values and is checked by whoever parses it
    (`macaron.hcp.document.load_hcp`).

    Raises:
        DigestError: a part is missing or differs.
    """
    manifest = folder / MANIFEST
    if not manifest.exists():
        raise DigestError("no such pair", where=str(folder), mend=how_to_restore(folder.name))
    pair = Pair.from_json(read_json(manifest), str(manifest))
    for specialist, revision in pair.adapters.items():
        check_digest(adapter_path(folder, specialist), revision, mend=how_to_restore(pair.id))
    _check_pool(folder, pair)
    return pair


def load_pool(folder: Path) -> Packed | None:
    """The tools in a pair's folder; None where it has none.

    Raises:
        DigestError: they are damaged, or their evidence does not lead to them.
    """
    return load_packed(folder / TOOLS) if (folder / TOOLS).exists() else None


def _check_pool(folder: Path, pair: Pair) -> None:
    if pair.pool_files is not None:
        check_digest(folder / TOOLS, pair.pool_files, mend=how_to_restore(pair.id))
    pool = load_pool(folder)
    found = pool.digest if pool else None
    if found != pair.pool:
        raise DigestError(
            f"pool {str(found)[:12]}, recorded as {str(pair.pool)[:12]}",
            where=str(folder / TOOLS),
            mend=how_to_restore(pair.id),
        )


def how_to_restore(pair_id: str) -> str:
    """What to do about a pair's folder that is not whole."""
    return f"`macaron pairs restore {pair_id}` puts back what MLflow has of it"


def base_digest(folder: Path) -> str:
    """SHA-256 over a base's weight files (safetensors), by name.

    Raises:
        DigestError: the folder has no safetensors weights.
    """
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise DigestError(
            "no *.safetensors weights here",
            where=str(folder),
            mend="give the folder of a base saved as safetensors",
        )
    return digest_value([[w.name, digest_file(w)] for w in weights])
