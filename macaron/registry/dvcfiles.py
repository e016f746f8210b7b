"""What DVC reads and writes, as text and hashes: configuration, stage, lock, md5 of a tree.

The stage is frozen: DVC records it and never runs it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.errors import DigestError

REMOTE = "pairs"
STAGE = "pair"

_CONFIG = """\
[core]
    analytics = false
    check_update = false
    autostage = false
    remote = {remote}
['remote "{remote}"']
    url = {url}
    verify = true
"""

_LOCAL = """\
[core]
    site_cache_dir = {cache}
"""


COMPARED = """\
# Numbers of the pair at this commit, in one place for all pairs: dvc params diff, dvc metrics diff.
params:
  - params.json
metrics:
  - metrics.json
"""
"""A dvc.yaml without stages, in lineage/."""


def config(url: str) -> str:
    """The record's DVC configuration: where the data is, and that it is checked on arrival."""
    return _CONFIG.format(remote=REMOTE, url=url)


def local_config(cache: Path) -> str:
    """The workspace's own part, which no clone gets: caches stay in this project."""
    return _LOCAL.format(cache=cache)


def stage(
    command: str, *, deps: Sequence[str], params: str, outs: Sequence[str], metrics: str
) -> str:
    """A dvc.yaml in lineage/<id>/, with all paths from the project's root."""
    from dvc.utils.serialize import dumps_yaml

    pair = {
        "cmd": command,
        "wdir": "../..",
        "frozen": True,
        "deps": sorted(deps),
        "params": [{params: None}],
        "outs": sorted(outs),
        "metrics": [{metrics: {"cache": False}}],
    }
    return str(dumps_yaml({"stages": {STAGE: pair}}))


@dataclass(frozen=True)
class Lock:
    """What a record's dvc.lock says: path from the project's root -> md5."""

    deps: Mapping[str, str]
    outs: Mapping[str, str]
    params: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, where: str) -> "Lock":
        """The lock in a file.

        Raises:
            DigestError: it has no frozen stage of ours, or an entry without a hash.
        """
        from dvc.utils.serialize import parse_yaml

        try:
            found = parse_yaml(text, where)["stages"][STAGE]
            return cls(
                deps={item["path"]: item["md5"] for item in found.get("deps", [])},
                outs={item["path"]: item["md5"] for item in found["outs"]},
                params=found.get("params", {}),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DigestError(f"not a lock of ours: {error}", where=where) from error


def md5_file(path: Path) -> str:
    """DVC's hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def md5_tree(folder: Path) -> tuple[str, dict[str, str]]:
    """DVC's hash of a folder, and that of each file in it by its relative name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    hashes = {path.relative_to(folder).as_posix(): md5_file(path) for path in files}
    return hash_listing(hashes), hashes


def hash_listing(hashes: Mapping[str, str]) -> str:
    """DVC's hash of a folder with these files: that of its listing."""
    listing = [{"md5": md5, "relpath": name} for name, md5 in sorted(hashes.items())]
    return hashlib.md5(json.dumps(listing, sort_keys=True).encode()).hexdigest() + ".dir"
