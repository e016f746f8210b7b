"""The state of the code that a pair is made by: a commit, and whether the files differ from it.

Asking changes nothing in the person's checkout, their index included.
"""

from dataclasses import dataclass
from pathlib import Path

from macaron.errors import RegistryError
from macaron.files import digest_bytes, digest_file
from macaron.registry.git import Git


@dataclass(frozen=True)
class Code:
    """The code that a pair was made by."""

    commit: str
    """HEAD of the person's checkout."""
    dirty: bool = False
    """Whether their files differ from it."""
    diff: str = ""
    """Digest of the difference and of new Python and TOML files; empty where there is none."""


def code_of(root: Path) -> Code:
    """The state of the code in a project, the top folder of its git repository.

    Raises:
        RegistryError: there is no git repository or no commit to record on.
    """
    git = Git(root)
    if not git.succeeds("rev-parse", "--git-dir"):
        raise RegistryError(
            "is no git repository, which lineage needs",
            where=str(root),
            mend="run `git init`, add the files and commit",
        )
    top = Path(git.text("rev-parse", "--show-toplevel")).resolve()
    if top != root.resolve():
        raise RegistryError(
            f"is not the top folder of its git repository, {top} is",
            where=str(root),
            mend="give the project a repository of its own",
        )
    commit = git.commit_of("HEAD")
    if commit is None:
        raise RegistryError(
            "has no commit, which lineage needs",
            where=str(root),
            mend="run `git add` and `git commit` once",
        )
    return _with_changes(git, commit, root)


def _with_changes(git: Git, commit: str, root: Path) -> Code:
    diff = git.raw("diff", "--binary", "--no-ext-diff", "--no-textconv", "HEAD")
    new = git.text("ls-files", "-o", "--exclude-standard", "-z", "--", "*.py", "*.toml")
    names = sorted(name for name in new.split("\0") if name)
    if not diff and not names:
        return Code(commit)
    added = "".join(f"{name} {digest_file(root / name)}\n" for name in names)
    return Code(commit, dirty=True, diff=digest_bytes(diff + added.encode()))
