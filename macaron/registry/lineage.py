"""The record of pairs in git and DVC: a commit and a tag `pair/<id>` each, forming the family tree.

Nothing of the person's checkout is touched: not a file, not the index, not a branch of theirs.
The tag is written last, after the data has reached the DVC remote, so that a tag means a whole
record; what was begun before it is done again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macaron.errors import RegistryError
from macaron.registry.code import Code, code_of
from macaron.registry.dvcfiles import Lock, md5_tree
from macaron.registry.git import Git
from macaron.registry.lock import exclusive
from macaron.registry.workspace import PAIRS, Entry, Workspace

BRANCH = "refs/heads/macaron-pairs"
"""Its tip has every record behind it, the rejected ones too."""


@dataclass(frozen=True)
class Record:
    """One pair's place in git and DVC."""

    commit: str
    tag: str
    dvc_md5: str
    """Hash of the pair's folder."""


class Lineage:
    """The records of one project.

    Args:
        root: the project, the top folder of its git repository.
        workspace: the worktree; made at the first record, ignored by the project's git.
        remote: DVC remote URL or an absolute folder.
    """

    def __init__(self, root: Path, workspace: Path, remote: str) -> None:
        self.root, self.workspace, self.remote = root.resolve(), workspace.resolve(), remote

    def code(self) -> Code:
        """The state of the code; ask at a cycle's start, so that a fault costs no night.

        Raises:
            RegistryError: there is no git repository or no commit to record on.
        """
        return code_of(self.root)

    def record(
        self,
        pair_id: str,
        *,
        parent: str | None,
        pair_folder: Path,
        files: Sequence[Path] = (),
        params: Mapping[str, Any],
        metrics: Mapping[str, Any],
        message: str,
        code: Code | None = None,
        command: str = "macaron improve",
    ) -> Record:
        """Records one pair; the same again gives the record that is there.

        Args:
            pair_id: the pair.
            parent: the recorded pair it was made from; None for an ancestor.
            pair_folder: its files.
            files: what it was made from and judged by: contract, bank, experience, a report.
                TOML and Markdown stay readable in git, the rest is kept by DVC.
            params: JSON values it was made with; the code's state is added as `code`.
            metrics: JSON values of its verdict.
            message: the commit's first line.
            code: the code that made it; by default that of this moment.
            command: what a person would run to make such a pair.

        Raises:
            RegistryError: git or DVC refused, the parent is not recorded, or the pair is
                recorded already with other content.
        """
        found = code or self.code()
        entry = Entry(pair_id, parent, pair_folder, files, params, metrics, found, command)
        with self._locked() as git:
            there = self.find(pair_id)
            if there is not None:
                return _again(git, there, entry)
            return self._record(git, entry, message)

    def find(self, pair_id: str) -> Record | None:
        """The pair's record; None where it has none."""
        commit = Git(self.root).commit_of(f"refs/tags/pair/{pair_id}")
        if commit is None:
            return None
        return Record(commit, f"pair/{pair_id}", self.lock(pair_id).outs[f"{PAIRS}/{pair_id}"])

    def lock(self, pair_id: str) -> Lock:
        """The hashes that the pair's record names.

        Raises:
            RegistryError: the pair is not recorded.
        """
        name = f"lineage/{pair_id}/dvc.lock"
        return Lock.parse(self.read(pair_id, name).decode(), f"pair/{pair_id}")

    def read(self, pair_id: str, name: str) -> bytes:
        """A file of the pair's record, as git has it."""
        return Git(self.root).raw("cat-file", "blob", f"refs/tags/pair/{pair_id}:{name}")

    @contextmanager
    def _locked(self) -> Iterator[Git]:
        # Concurrent runs corrupt DVC's own lock file. Git's children inherit this lock, so
        # that nobody starts while an orphan of a killed process still writes.
        common = Git(self.root).text("rev-parse", "--git-common-dir")
        with exclusive(self.root / common / "macaron-lineage.lock") as descriptor:
            yield Git(self.root, (descriptor,))

    def _record(self, git: Git, entry: Entry, message: str) -> Record:
        parents = [_recorded(git, entry.parent)] if entry.parent else []
        workspace = Workspace(git, self.workspace, self.remote)
        workspace.check_out(entry.code.commit, entry.parent)
        data = workspace.write(entry)
        lock = workspace.store(entry, data, self.lock(entry.parent) if entry.parent else None)
        md5 = lock.outs[f"{PAIRS}/{entry.pair_id}"]
        if md5 != (now := md5_tree(entry.pair_folder)[0]):
            raise RegistryError(
                f"the pair changed while it was recorded ({md5[:8]}, now {now[:8]})",
                where=str(entry.pair_folder),
                mend="run the cycle again",
            )
        commit = _commit(
            git,
            workspace.write_tree(),
            [*parents, entry.code.commit],
            f"{message}\n\n{_trailers(entry, md5)}\n",
        )
        # The worktree stands on its new commit before anything else does: after the tag nothing
        # is left to do.
        workspace.git.text("update-ref", "--no-deref", "HEAD", commit)
        _point(git, entry.pair_id, commit)
        return Record(commit, f"pair/{entry.pair_id}", md5)


def _recorded(git: Git, parent: str) -> str:
    commit = git.commit_of(f"refs/tags/pair/{parent}")
    if commit is None:
        raise RegistryError(
            f"the parent pair {parent} is not recorded",
            where=str(git.folder),
            mend=f"fetch the tag pair/{parent}",
        )
    return commit


def _again(git: Git, there: Record, entry: Entry) -> Record:
    found = md5_tree(entry.pair_folder)[0]
    if found != there.dvc_md5:
        raise RegistryError(
            f"{there.tag} is recorded with {there.dvc_md5[:8]}, the folder is {found[:8]}",
            where=str(entry.pair_folder),
            mend="a record never changes; restore the folder with `dvc pull`",
        )
    # A kill between a record's two references leaves the branch behind.
    tip = _tip(git)
    if tip is None or git.succeeds("merge-base", "--is-ancestor", tip, there.commit):
        git.text("update-ref", BRANCH, there.commit)
    return there


def _tip(git: Git) -> str | None:
    """The branch's commit, once it is known to be ours."""
    tip = git.commit_of(BRANCH)
    if tip is not None and not git.succeeds("cat-file", "-e", f"{tip}:lineage"):
        raise RegistryError(
            f"branch {BRANCH.removeprefix('refs/heads/')} holds no lineage",
            where=str(git.folder),
            mend="rename that branch",
        )
    return tip


def _commit(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    known = list(dict.fromkeys(parents))
    tip = _tip(git)
    # The latest record becomes a parent as well where it is a sibling, so that one history
    # holds every pair, the rejected ones too.
    if tip is not None and not any(
        git.succeeds("merge-base", "--is-ancestor", tip, commit) for commit in known
    ):
        known.append(tip)
    options = [part for commit in known for part in ("-p", commit)]
    return git.text(*git.identity(), "commit-tree", tree, *options, stdin=message)


def _point(git: Git, pair_id: str, commit: str) -> None:
    """Tag and branch in one transaction."""
    old = git.commit_of(BRANCH) or "0" * len(commit)
    lines = (f"create refs/tags/pair/{pair_id} {commit}", f"update {BRANCH} {commit} {old}")
    git.text("update-ref", "--stdin", stdin="\n".join(lines) + "\n")


def _trailers(entry: Entry, md5: str) -> str:
    code = entry.code
    changed = f" with uncommitted changes {code.diff[:12]}" if code.dirty else ""
    lines = (
        f"Pair: {entry.pair_id}",
        f"Parent: {entry.parent or 'none'}",
        f"Code: {code.commit}{changed}",
        f"Data: {md5}",
    )
    return "\n".join(lines)
