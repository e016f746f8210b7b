"""The lineage's workspace: a git worktree in which DVC hashes, keeps and pushes a record's data.

Whatever a killed process left in it is overwritten or removed by the next record. It is the only
folder outside the object store that a record writes, and it is ours: one that we did not make is
refused.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from macaron.errors import RegistryError
from macaron.files import digest_file, digest_tree, storage_errors, write_atomic, write_json
from macaron.registry.code import Code
from macaron.registry.copy import replace
from macaron.registry.dvcfiles import COMPARED, Lock, config, local_config, md5_tree, stage
from macaron.registry.git import Git

PAIRS = "models/pairs"
DATA = "lineage/data"
_READABLE = (".toml", ".md")
"""Evidence that git keeps as it is; the rest goes to DVC, named by its content as well."""
_DATA_IGNORE = "# The data itself is DVC's.\n*\n!*.dvc\n!.gitignore\n"
_DVC_IGNORE = "/config.local\n/tmp\n/cache\n"
_MARKER = ".dvc/tmp/macaron-lineage"


@dataclass(frozen=True)
class Entry:
    """All that is to be recorded of one pair."""

    pair_id: str
    parent: str | None
    pair_folder: Path
    files: Sequence[Path]
    """What it was made from and judged by."""
    params: Mapping[str, Any]
    metrics: Mapping[str, Any]
    code: Code
    command: str
    """What a person would run to make such a pair."""

    @property
    def folder(self) -> str:
        """Its place in the record, from the project's root."""
        return f"lineage/{self.pair_id}"


class Workspace:
    """One worktree.

    Args:
        git: git in the project, holding the lineage's lock.
        folder: where the worktree is or goes.
        remote: DVC remote URL or an absolute folder.
    """

    def __init__(self, git: Git, folder: Path, remote: str) -> None:
        self.root_git, self.folder, self.remote = git, folder, remote
        self.git = Git(folder, git.keep_open)

    def check_out(self, commit: str, parent: str | None) -> None:
        """Makes it the code's commit, with the lineage of the parent pair.

        Raises:
            RegistryError: something that we did not make is where it goes.
        """
        self._ensure()
        own = Path(self.git.text("rev-parse", "--absolute-git-dir"))
        for name in ("index.lock", "HEAD.lock"):
            # Nobody else works here while the lock is held: a killed process left it.
            (own / name).unlink(missing_ok=True)
        self.git.text("checkout", "--quiet", "--force", "--detach", commit)
        if parent is not None:
            self.git.text("checkout", "--quiet", f"refs/tags/pair/{parent}", "--", "lineage")
        self.git.text("clean", "-fdq", "--", "lineage")

    def write(self, entry: Entry) -> list[str]:
        """Writes the record's files; returns the evidence that DVC keeps."""
        folder, here = self.folder, entry.folder
        write_atomic(folder / ".dvc" / "config", config(self.remote))
        write_atomic(folder / ".dvc" / ".gitignore", _DVC_IGNORE)
        write_atomic(folder / ".dvc" / "config.local", local_config(folder / ".dvc/tmp/site"))
        write_atomic(folder / DATA / ".gitignore", _DATA_IGNORE)
        replace(entry.pair_folder, folder / PAIRS / entry.pair_id)
        kept = [self._keep(path, here) for path in entry.files]
        parents = [f"{PAIRS}/{entry.parent}"] if entry.parent else []
        write_atomic(folder / "lineage" / "dvc.yaml", COMPARED)
        for place in ("lineage", here):
            params = {**entry.params, "code": asdict(entry.code)}
            write_json(folder / place / "params.json", params)
            write_json(folder / place / "metrics.json", dict(entry.metrics))
        write_atomic(
            folder / here / "dvc.yaml",
            stage(
                entry.command,
                deps=[*kept, *parents],
                params=f"{here}/params.json",
                outs=[f"{PAIRS}/{entry.pair_id}"],
                metrics=f"{here}/metrics.json",
            ),
        )
        return sorted({name for name in kept if name.startswith(DATA)})

    def store(self, entry: Entry, data: Sequence[str], parent: Lock | None) -> Lock:
        """Has DVC hash the record and push its data.

        Args:
            entry: what was written.
            data: evidence that DVC keeps.
            parent: the lock of the parent's record.
        """
        stage_file = self.folder / entry.folder / "dvc.yaml"
        targets = [str(stage_file), *(str(self.folder / f"{name}.dvc") for name in data)]
        with self._dvc() as repo:
            if entry.parent and parent:
                self._ensure_parent(repo, entry.parent, parent)
            if data:
                repo.add([str(self.folder / name) for name in data])
            repo.commit(targets[0], force=True)
            repo.push(targets=targets)
        return Lock.parse(stage_file.with_name("dvc.lock").read_text(), "dvc.lock")

    def write_tree(self) -> str:
        """The record as a git tree."""
        self.git.text("add", "--", ".dvc/config", ".dvc/.gitignore", "lineage")
        ignore = f"{PAIRS}/.gitignore"
        # DVC writes it where the project's own .gitignore does not cover the pairs.
        if (self.folder / ignore).exists() and not self.git.succeeds("check-ignore", "-q", ignore):
            self.git.text("add", "--", ignore)
        return self.git.text("write-tree")

    def _keep(self, path: Path, here: str) -> str:
        if path.suffix in _READABLE:
            name = f"{here}/{path.name}"
        else:
            digest = digest_tree(path) if path.is_dir() else digest_file(path)
            name = f"{DATA}/{path.stem}-{digest[:16]}{path.suffix}"
        replace(path, self.folder / name)
        return name

    def _ensure_parent(self, repo: Any, parent: str, lock: Lock) -> None:
        """The parent's files, since DVC hashes what is there."""
        folder, md5 = self.folder / PAIRS / parent, lock.outs[f"{PAIRS}/{parent}"]
        if folder.exists() and md5_tree(folder)[0] == md5:
            return
        shutil.rmtree(folder, ignore_errors=True)
        repo.pull(targets=[str(self.folder / "lineage" / parent / "dvc.yaml")], force=True)
        if md5_tree(folder)[0] != md5:
            raise RegistryError(
                f"pair {parent} is not what its record says",
                where=self.remote,
                mend="restore the DVC remote from a copy",
            )

    def _ensure(self) -> None:
        folder, root = self.folder, self.root_git
        if _is_worktree(root, folder) and (folder / _MARKER).exists():
            return
        content = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        # A worktree that was killed at birth has nothing but its link.
        if content - {".git"} and not (folder / _MARKER).exists():
            raise RegistryError(
                "is in the way: the lineage's worktree goes here",
                where=str(folder),
                mend="move it, or set stores.workspace in macaron.toml",
            )
        shutil.rmtree(folder, ignore_errors=True)
        root.text("worktree", "prune")
        # Twice forced: over one that is missing, and over one that a kill left locked.
        add = ("worktree", "add", "-f", "-f", "--no-checkout", "--detach")
        root.text(*add, str(folder), "HEAD")
        write_atomic(folder / _MARKER, "This worktree is made and changed by macaron.\n")

    @contextmanager
    def _dvc(self) -> Iterator[Any]:
        """DVC, quiet, with its faults as one line."""
        import logging

        from dvc.exceptions import DvcException
        from dvc.repo import Repo
        from scmrepo.exceptions import SCMError

        logging.getLogger("dvc").setLevel(logging.ERROR)
        # No other DVC runs here; a killed one may have left these half-written.
        for name in ("rwlock", "rwlock.lock", "lock"):
            (self.folder / ".dvc" / "tmp" / name).unlink(missing_ok=True)
        try:
            with storage_errors(self.folder), Repo(str(self.folder)) as repo:
                # Its run cache is for stages that DVC runs, and works in the process's folder.
                repo.stage_cache.save = lambda stage: None
                yield repo
        except (DvcException, SCMError, OSError) as error:
            words = str(error).strip().splitlines()[0]
            raise RegistryError(
                f"DVC: {words}", where=self.remote, mend="check stores.dvc_remote in macaron.toml"
            ) from error


def _is_worktree(root: Git, folder: Path) -> bool:
    """Whether the folder is a worktree of this repository, and not merely inside of it."""
    if not (folder / ".git").is_file():
        return False
    git, query = Git(folder), ("rev-parse", "--path-format=absolute", "--git-common-dir")
    return (
        git.commit_of("HEAD") is not None
        and Path(git.text("rev-parse", "--show-toplevel")).resolve() == folder
        and git.text(*query) == root.text(*query)
    )
