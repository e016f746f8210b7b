"""The record in git and DVC: whole, repeatable, and nobody's checkout touched."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from macaron.errors import RegistryError
from macaron.files import digest_tree
from macaron.registry.code import code_of
from macaron.registry.dvcfiles import md5_tree
from macaron.registry.lineage import Lineage
from tests.registry.parts import ROOT
from tests.registry.project import Project, git, make_project

full = pytest.mark.full


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


def graph(project: Project) -> dict[str, list[str]]:
    """Every record's parents, by tag or branch name."""
    names = {}
    for line in git(project.root, "for-each-ref", "--format=%(objectname) %(refname)").split("\n"):
        commit, ref = line.split()
        if ref.startswith("refs/tags/") or commit not in names:
            names[commit] = ref.split("/", 2)[2]
    return {
        name: [names[p] for p in git(project.root, "show", "-s", "--format=%P", commit).split()]
        for commit, name in names.items()
    }


@full
def test_the_commits_are_the_family_tree(project: Project) -> None:
    ancestor = project.recorded(1.0)
    rejected = project.recorded(2.0, ancestor, promoted=False)
    champion = project.recorded(3.0, ancestor)
    child = project.recorded(4.0, champion)
    a, r, c, d = (f"pair/{p.id}" for p in (ancestor, rejected, champion, child))
    assert graph(project) == {
        "main": [],
        a: ["main"],
        r: [a, "main"],
        # The rejected sibling is in the history too, after the two parents.
        c: [a, "main", r],
        d: [c, "main"],
    }
    assert git(project.root, "rev-parse", "macaron-pairs") == git(project.root, "rev-parse", d)
    log = git(project.root, "log", "--format=%s", "--first-parent", d)
    assert log.splitlines() == [
        "Generation 2: promoted",
        "Generation 1: promoted",
        "Generation 0: ancestor",
        "The project",
    ]
    trailers = git(project.root, "show", "-s", "--format=%(trailers:key=Parent,valueonly)", d)
    assert trailers.strip() == champion.id


def test_what_a_record_holds(project: Project) -> None:
    ancestor = project.recorded(1.0)
    pair = project.recorded(2.0, ancestor)
    record, lock = project.lineage.find(pair.id), project.lineage.lock(pair.id)
    assert record is not None
    assert record.dvc_md5 == md5_tree(project.pairs.folder(pair.id))[0]
    assert set(lock.outs) == {f"models/pairs/{pair.id}", f"lineage/{pair.id}/metrics.json"}
    kinds = {name.split("/")[0] + Path(name).suffix for name in lock.deps}
    assert kinds == {"lineage.toml", "lineage.jsonl", "lineage.parquet", "models"}
    assert f"models/pairs/{ancestor.id}" in lock.deps
    params = json.loads(project.lineage.read(pair.id, f"lineage/{pair.id}/params.json"))
    head = git(project.root, "rev-parse", "HEAD")
    assert params["seed"] == 7 and params["code"] == {"commit": head, "dirty": False, "diff": ""}
    metrics = json.loads(project.lineage.read(pair.id, f"lineage/{pair.id}/metrics.json"))
    assert metrics["suite"]["chat"]["challenger"] == 0.8
    stage = project.lineage.read(pair.id, f"lineage/{pair.id}/dvc.yaml").decode()
    assert "frozen: true" in stage and "cmd: macaron improve" in stage
    # The code at the record is the code that made it.
    assert project.lineage.read(pair.id, "macaron/code.py") == b"answer = 42\n"
    assert project.lineage.find("f" * 16) is None


def test_recording_again_changes_nothing(project: Project) -> None:
    pair = project.pair(1.0)
    first = project.record(pair)
    refs = git(project.root, "show-ref")
    assert project.record(pair) == first
    assert git(project.root, "show-ref") == refs


@full
def test_a_record_is_never_rewritten(project: Project) -> None:
    pair = project.recorded(1.0)
    (project.pairs.folder(pair.id) / "adapters" / "more").write_text("{}")
    with pytest.raises(RegistryError, match="a record never changes"):
        project.record(pair)


def test_the_persons_checkout_is_untouched(project: Project) -> None:
    """While they have staged, unstaged and new files, and are on a branch of their own."""
    root = project.root
    git(root, "checkout", "-q", "-b", "feature")
    (root / "macaron" / "code.py").write_text("answer = 43\n")
    (root / "macaron" / "staged.py").write_text("x = 1\n")
    git(root, "add", "macaron/staged.py")
    (root / "notes.txt").write_text("mine\n")
    index = (root / ".git" / "index").read_bytes()

    def state() -> tuple[str, ...]:
        heads = git(root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")
        own = "\n".join(line for line in heads.splitlines() if "macaron-pairs" not in line)
        head = (root / ".git" / "HEAD").read_text()
        return own, head, git(root, "status", "--porcelain"), git(root, "stash", "list")

    before, tree = state(), digest_tree(root / "macaron")
    pair = project.recorded(1.0)
    project.recorded(2.0, pair)
    assert state() == before and digest_tree(root / "macaron") == tree
    git(root, "update-index", "-q", "--refresh")
    assert (root / ".git" / "index").read_bytes()[:12] == index[:12]
    params = json.loads(project.lineage.read(pair.id, f"lineage/{pair.id}/params.json"))
    assert params["code"]["dirty"] and len(params["code"]["diff"]) == 64
    message = git(root, "show", "-s", "--format=%B", f"pair/{pair.id}")
    assert f"with uncommitted changes {params['code']['diff'][:12]}" in message
    assert project.lineage.read(pair.id, "macaron/code.py") == b"answer = 42\n"


@full
def test_the_index_file_is_not_rewritten(project: Project) -> None:
    """Even a status would refresh it."""
    (project.root / "macaron" / "code.py").touch()
    index = project.root / ".git" / "index"
    before = index.read_bytes(), index.stat().st_mtime_ns
    project.recorded(1.0)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_the_codes_state_names_every_change(project: Project) -> None:
    clean = code_of(project.root)
    assert not clean.dirty and clean.commit == git(project.root, "rev-parse", "HEAD")
    code = project.root / "macaron" / "code.py"
    code.write_text("answer = 43\n")
    edited = code_of(project.root)
    (project.root / "macaron" / "new.py").write_text("x = 1\n")
    added = code_of(project.root)
    (project.root / "macaron" / "new.py").write_text("x = 2\n")
    changed = code_of(project.root)
    assert len({clean.diff, edited.diff, added.diff, changed.diff}) == 4
    code.write_text("answer = 42\n")
    (project.root / "macaron" / "new.py").unlink()
    (project.root / "data.csv").write_text("not code")
    assert code_of(project.root) == clean


@full
def test_later_code_is_recorded_with_the_old_lineage(project: Project) -> None:
    pair = project.recorded(1.0)
    (project.root / "macaron" / "code.py").write_text("answer = 44\n")
    git(project.root, "commit", "-qam", "Later")
    child = project.recorded(2.0, pair)
    assert project.lineage.read(child.id, "macaron/code.py") == b"answer = 44\n"
    assert project.lineage.read(child.id, f"lineage/{pair.id}/dvc.yaml")


def test_an_unrecorded_parent_is_named(project: Project) -> None:
    parent = project.pair(1.0)
    child = project.pair(2.0, parent)
    with pytest.raises(RegistryError, match=f"parent pair {parent.id} is not recorded"):
        project.record(child)


def test_faults_of_the_repository_are_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    with pytest.raises(RegistryError, match="is no git repository"):
        code_of(folder)
    git(folder, "init", "-q")
    with pytest.raises(RegistryError, match="has no commit"):
        code_of(folder)
    (folder / "inner").mkdir()
    with pytest.raises(RegistryError, match="is not the top folder of its git repository"):
        code_of(folder / "inner")
    pair = tmp_path / "pair"
    pair.mkdir()
    with pytest.raises(RegistryError, match="has no commit"):
        Lineage(folder, folder / "ws", str(tmp_path / "remote")).record(
            "aa", parent=None, pair_folder=pair, params={}, metrics={}, message="x"
        )


@full
def test_without_an_identity_macaron_commits(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    pair = project.recorded(1.0)
    who = git(project.root, "show", "-s", "--format=%an <%ae> %cn", f"pair/{pair.id}")
    assert who == "macaron <macaron@localhost> macaron"


@full
def test_it_works_from_inside_a_hook(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git sets these for hooks; they would send our commands to another repository."""
    elsewhere = make_project(project.root.parent / "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(elsewhere.root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(elsewhere.root / ".git" / "index"))
    pair = project.pair(1.0)
    record = project.record(pair)
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert git(project.root, "rev-parse", record.tag) == record.commit
    assert git(elsewhere.root, "tag") == ""


@full
def test_hooks_of_the_repository_do_not_run(project: Project) -> None:
    hook = project.root / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {project.root}/ran\nexit 1\n")
    hook.chmod(0o755)
    project.recorded(1.0)
    assert not (project.root / "ran").exists()


@full
def test_a_folder_of_somebody_else_is_never_cleared(project: Project) -> None:
    mine = project.root / "workspace"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(RegistryError, match=r"workspace: is in the way"):
        project.recorded(1.0)
    shutil.rmtree(mine)
    # A worktree of theirs, with work in it, is theirs as well.
    git(project.root, "worktree", "add", "-q", str(mine), "-b", "theirs")
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(RegistryError, match="is in the way"):
        project.recorded(1.0)
    assert (mine / "thesis.txt").read_text() == "years of work"


@full
def test_a_branch_of_somebody_else_is_never_moved(project: Project) -> None:
    git(project.root, "branch", "macaron-pairs")
    with pytest.raises(RegistryError, match="branch macaron-pairs holds no lineage"):
        project.recorded(1.0)
    assert git(project.root, "tag") == ""


@full
def test_a_broken_workspace_is_made_again(project: Project) -> None:
    first = project.recorded(1.0)
    shutil.rmtree(project.root / "workspace")
    second = project.recorded(2.0, first)
    shutil.rmtree(project.root / ".git" / "worktrees")
    third = project.recorded(3.0, second)
    (project.root / ".git" / "worktrees" / "workspace" / "index.lock").write_text("")
    junk = project.root / "workspace" / "lineage" / "dead"
    junk.mkdir()
    (junk / "dvc.yaml").write_text("stages: {broken")
    fourth = project.recorded(4.0, third)
    listed = git(project.root, "ls-tree", "-r", "--name-only", f"pair/{fourth.id}", "lineage/")
    assert "dead" not in listed
    assert git(project.root / "workspace", "status", "--porcelain") == ""


@full
def test_a_moved_project_goes_on(project: Project, tmp_path: Path) -> None:
    first = project.recorded(1.0)
    project.root.rename(tmp_path / "moved")
    moved = Project(tmp_path / "moved")
    child = moved.recorded(2.0, first)
    assert moved.lineage.find(child.id) is not None


@full
def test_a_spoiled_copy_of_the_parent_is_fetched_again(project: Project) -> None:
    first = project.recorded(1.0)
    spoiled = project.root / "workspace" / "models" / "pairs" / first.id / "manifest.json"
    spoiled.write_text("{}")
    second = project.recorded(2.0, first)
    name = f"models/pairs/{first.id}"
    assert project.lineage.lock(second.id).deps[name] == project.lineage.lock(first.id).outs[name]


@full
def test_a_remote_that_cannot_be_written_is_one_line(project: Project) -> None:
    project.remote.parent.mkdir(exist_ok=True)
    project.remote.write_text("a file is in the way")
    with pytest.raises(RegistryError) as error:
        project.recorded(1.0)
    assert "\n" not in str(error.value) and str(project.remote) in str(error.value)
    assert git(project.root, "tag") == ""


@full
def test_a_project_that_does_not_ignore_its_pairs(project: Project) -> None:
    (project.root / ".gitignore").write_text("/workspace/\n/.macaron/\n")
    git(project.root, "commit", "-qam", "Ignore less")
    pair = project.recorded(1.0)
    listed = git(project.root, "ls-tree", "-r", "--name-only", f"pair/{pair.id}")
    assert f"models/pairs/{pair.id}/manifest.json" not in listed
    assert git(project.root / "workspace", "status", "--porcelain") == ""


@full
def test_a_fresh_clone_has_everything(project: Project, tmp_path: Path) -> None:
    """What an auditor does: clone, check out the tag, pull."""
    first = project.recorded(1.0)
    second = project.recorded(2.0, first)
    head = git(project.root, "rev-parse", "HEAD")
    git(project.root, "commit", "-q", "--allow-empty", "-m", "Later")
    third = project.recorded(3.0, first, promoted=False)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project.root), str(clone))
    git(clone, "checkout", "-q", f"pair/{second.id}")

    def dvc(*args: str) -> str:
        command = [sys.executable, "-m", "dvc", *args]
        ran = subprocess.run(command, cwd=clone, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    dvc("pull")
    for pair in (first, second):
        copied = clone / "models" / "pairs" / pair.id
        assert digest_tree(copied) == digest_tree(project.pairs.folder(pair.id))
    data = {p.read_bytes() for p in (clone / "lineage" / "data").iterdir() if p.suffix != ".dvc"}
    assert {path.read_bytes() for path in project.evidence[1:]} <= data
    assert "up to date" in dvc("status")
    dag = dvc("dag", "--dot")
    assert f"lineage/{first.id}/dvc.yaml" in dag and f"lineage/{second.id}/dvc.yaml" in dag
    shown = json.loads(dvc("metrics", "show", "--json"))
    numbers = shown[""]["data"][f"lineage/{second.id}/metrics.json"]["data"]
    assert numbers["suite"]["chat"]["challenger"] == 0.8
    changed = json.loads(dvc("metrics", "diff", "--json", f"pair/{third.id}", f"pair/{second.id}"))
    suite = changed["lineage/metrics.json"]
    assert suite["suite.chat.challenger"] == {"old": 0.5, "new": 0.8, "diff": pytest.approx(0.3)}
    params = json.loads(dvc("params", "diff", "--json", f"pair/{third.id}", f"pair/{second.id}"))
    assert params["lineage/params.json"]["code.commit"]["new"] == head
    assert git(clone, "status", "--porcelain") == ""


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from macaron.registry import workspace
from macaron.registry.git import Git
from tests.registry.project import Project
left = [{point}]
def tick():
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
def wrap(owner, name):
    real = getattr(owner, name)
    def ticking(*args, **kwargs):
        tick()
        result = real(*args, **kwargs)
        tick()
        return result
    setattr(owner, name, ticking)
from dvc.repo import Repo
for owner, name in ((Git, "_run"), (workspace, "replace"), (workspace, "write_atomic"),
                    (Repo, "add"), (Repo, "commit"), (Repo, "push")):
    wrap(owner, name)
project = Project(Path({project!r}))
pair = project.pairs.get({pair!r})
project.record(pair)
print("ended")
"""


@full
def test_a_kill_anywhere_is_mended_by_a_rerun(project: Project) -> None:
    """One record after another, each killed one point later, until one ends by itself."""
    parent, point = project.recorded(0.5), 1
    while True:
        pair = project.pair(1.0 + point, parent)
        script = KILLED.format(root=str(ROOT), project=str(project.root), pair=pair.id, point=point)
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert ran.returncode in (0, -9), ran.stderr
        record = project.record(pair)
        assert project.record(pair) == record
        folder = project.pairs.folder(pair.id)
        assert record.dvc_md5 == md5_tree(folder)[0]
        tip = git(project.root, "rev-parse", "macaron-pairs")
        assert tip == record.commit
        assert git(project.root / "workspace", "status", "--porcelain") == ""
        if ran.returncode == 0:
            assert ran.stdout == "ended\n"
            break
        # A few points only, spread over the whole.
        point += 12
    assert point > 40


@full
def test_two_records_at_once_wait_for_each_other(project: Project) -> None:
    """Concurrent runs corrupt DVC's rwlock (dvc#6097)."""
    parent = project.recorded(1.0)
    pairs = [project.pair(2.0 + i, parent) for i in range(3)]
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path\n"
        "from tests.registry.project import Project\n"
        f"project = Project(Path({str(project.root)!r}))\n"
        "project.record(project.pairs.get(sys.argv[1]))\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, pair.id], stderr=subprocess.PIPE)
        for pair in pairs
    ]
    for process in running:
        assert process.wait(600) == 0, process.stderr.read() if process.stderr else ""
    for pair in pairs:
        record = project.lineage.find(pair.id)
        assert record and record.dvc_md5 == md5_tree(project.pairs.folder(pair.id))[0]
        git(project.root, "merge-base", "--is-ancestor", record.tag, "macaron-pairs")
