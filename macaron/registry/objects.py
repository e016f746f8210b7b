"""A store of DVC's objects, a remote or a cache: files named by their md5, which is rechecked."""

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

_CHUNK = 1 << 20


class Objects:
    """One store.

    Args:
        name: what to call it in findings.
        url: DVC remote URL, or the folder of a remote or cache.
    """

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url

    @cached_property
    def _files(self) -> tuple[Any, str]:
        from dvc.fs import get_cloud_fs

        kind, options, path = get_cloud_fs({}, url=self.url)
        return kind(**options), path

    def _path(self, md5: str) -> str:
        files, root = self._files
        return str(files.join(root, "files", "md5", md5[:2], md5[2:]))

    def faults(self, md5: str, label: str) -> Iterator[str]:
        """What is wrong with an object; of a folder (`.dir`), with each file in it too."""
        fault = self._fault(md5, label)
        if fault:
            yield fault
        elif md5.endswith(".dir"):
            for name, inner in self.listing(md5).items():
                yield from self.faults(inner, f"{label}/{name}")

    def listing(self, md5: str) -> dict[str, str]:
        """Relative name -> md5 of the files in a folder."""
        with self._files[0].open(self._path(md5), "rb") as file:
            return {item["relpath"]: item["md5"] for item in json.load(file)}

    def _fault(self, md5: str, label: str) -> str | None:
        path, digest = self._path(md5), hashlib.md5()
        if not self._files[0].exists(path):
            return f"{self.name}: {label} is missing ({path})"
        with self._files[0].open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        found = digest.hexdigest()
        if found != md5.removesuffix(".dir"):
            return f"{self.name}: {label} is {found[:12]}, recorded as {md5[:12]} ({path})"
        return None
