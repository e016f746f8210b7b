"""The checks of an audit: each yields its faults in words, and nothing where all is well."""

import hashlib
import json
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from macaron.contract.document import Contract
from macaron.contract.verdict import Verdict
from macaron.pair import Pair
from macaron.pool.state import State
from macaron.registry.champions import CHAMPION
from macaron.registry.dvcfiles import Lock, md5_file, md5_tree
from macaron.registry.git import Git
from macaron.registry.lineage import Lineage, Record
from macaron.registry.objects import Objects
from macaron.registry.pairs import PairStore
from macaron.registry.tracking import Tracking
from macaron.registry.workspace import DATA, PAIRS

Faults = Iterator[str]
_COPIES = ("params.json", "metrics.json")
"""Kept in a place that is the same for all pairs too, so that two can be compared."""


@dataclass(frozen=True)
class Case:
    """One pair, and what its record says."""

    pair_id: str
    record: Record
    lock: Lock
    pairs: PairStore
    lineage: Lineage

    @property
    def pair(self) -> Pair:
        """Its manifest; whether the parts agree with it is for one check to say."""
        return self.pairs.manifest(self.pair_id)

    @property
    def verdict(self) -> Verdict | None:
        """Its verdict; None for an ancestor."""
        return self.pairs.verdict(self.pair_id)

    @property
    def md5(self) -> str:
        """Hash of the pair's folder, as recorded."""
        return self.record.dvc_md5

    def read(self, name: str) -> bytes:
        """A file of the record."""
        return self.lineage.read(self.pair_id, name)

    @property
    def params(self) -> dict[str, Any]:
        """What the record says that the pair was made with."""
        return dict(json.loads(self.read(f"lineage/{self.pair_id}/params.json")))


def git_objects(case: Case) -> Faults:
    """Rehashes the record's objects: git itself does not when it reads them."""
    git, commit = Git(case.lineage.root), case.record.commit
    paths = (".dvc", DATA, f"lineage/{case.pair_id}", *(f"lineage/{name}" for name in _COPIES))
    tree = git.text("ls-tree", "-r", "-t", commit, "--", *paths)
    names = {line.split("\t")[0].split()[2]: line.split("\t")[1] for line in tree.splitlines()}
    root = git.text("rev-parse", f"{commit}^{{tree}}")
    for oid, name in {commit: "the commit", root: "the root tree", **names}.items():
        kind = git.text("cat-file", "-t", oid)
        content = git.raw("cat-file", kind, oid)
        algorithm = hashlib.sha1 if len(oid) == 40 else hashlib.sha256
        if algorithm(f"{kind} {len(content)}\0".encode() + content).hexdigest() != oid:
            yield f"git: {name} is not {oid[:12]}"


def family(case: Case) -> Faults:
    """The commit descends from the parent pair's record and from the code."""
    git, pair = Git(case.lineage.root), case.pair
    parents = git.text("show", "-s", "--format=%P", case.record.commit).split()
    if pair.parent:
        expected = git.commit_of(f"refs/tags/pair/{pair.parent}")
        if expected not in parents:
            yield f"git: the commit does not descend from pair/{pair.parent}"
        recorded = case.lock.deps.get(f"{PAIRS}/{pair.parent}")
        if expected and recorded != case.lineage.lock(pair.parent).outs[f"{PAIRS}/{pair.parent}"]:
            yield f"git: pair {pair.parent} was another one when this was recorded"
    code = case.params.get("code", {}).get("commit")
    if code not in parents:
        yield f"git: the commit does not descend from its code {code}"


def lock_and_files(case: Case) -> Faults:
    """The lock's hashes and parameters against the files that git keeps beside it."""
    here = f"lineage/{case.pair_id}/"
    for name, md5 in {**case.lock.deps, **case.lock.outs}.items():
        if name.startswith(here):
            found = hashlib.md5(case.read(name)).hexdigest()
            if found != md5:
                yield f"git: {name} is {found[:12]}, locked as {md5[:12]}"
    if case.lock.params.get(f"{here}params.json") != case.params:
        yield f"git: {here}params.json differs from the lock"
    for name in _COPIES:
        if case.read(f"lineage/{name}") != case.read(f"{here}{name}"):
            yield f"git: lineage/{name} is not that of the pair"


def folder(case: Case) -> Faults:
    """The pair that the running system uses, file by file, and against its own manifest."""
    folder = case.pairs.folder(case.pair_id)
    found, hashes = md5_tree(folder)
    if found != case.md5:
        recorded = _remote_objects(case).listing(case.md5)
        for name in sorted(recorded.keys() | hashes.keys()):
            if recorded.get(name) != hashes.get(name):
                yield f"pair: {folder / name} {_change(recorded.get(name), hashes.get(name))}"
    case.pairs.get(case.pair_id)


def pool(case: Case) -> Faults:
    """Every callable tool passed as many trials as were needed; nothing demoted can be called."""
    packed = case.pairs.pool(case.pair_id)
    if packed is None:
        return
    events = State().apply(packed.events).entries
    for name, tool in packed.tools.items():
        entry = events[tool.digest]
        tried = [event for event in entry.events if event["event"] == "tried"]
        if not any(event["passed"] >= event["needed"] for event in tried):
            yield f"pool: {name} ({tool.digest[:12]}) never passed its trials"
        if not entry.saved_by:
            yield f"pool: {name} ({tool.digest[:12]}) was saved by no session"
        if tool.digest in packed.demoted:
            yield f"pool: {name} ({tool.digest[:12]}) was demoted"


def _remote_objects(case: Case) -> Objects:
    return Objects("DVC remote", case.lineage.remote)


def _kept_by_dvc(case: Case) -> dict[str, str]:
    everything = {**case.lock.deps, **case.lock.outs}
    return {name: md5 for name, md5 in everything.items() if name.startswith((PAIRS, DATA))}


def remote(case: Case) -> Faults:
    """Every object of the pair, its parent and its evidence."""
    store = _remote_objects(case)
    for name, md5 in _kept_by_dvc(case).items():
        yield from store.faults(md5, name)


def workspace(case: Case) -> Faults:
    """What is there; a clone without a workspace has nothing to check."""
    workspace = case.lineage.workspace
    cache = Objects("workspace cache", str(workspace / ".dvc" / "cache"))
    for name, md5 in _kept_by_dvc(case).items():
        copy = workspace / name
        if copy.exists():
            found = md5_tree(copy)[0] if copy.is_dir() else md5_file(copy)
            if found != md5:
                yield f"workspace: {copy} is {found[:12]}, recorded as {md5[:12]}"
            yield from cache.faults(md5, name)


def verdict(case: Case) -> Faults:
    """Whose it is, under which contract, and its numbers in the record."""
    verdict = case.verdict
    if verdict is None:
        if case.pair.parent:
            yield f"verdict: pair {case.pair_id} has a parent and no verdict"
        return
    if verdict.challenger not in (None, case.pair_id):
        yield f"verdict: it is of pair {verdict.challenger}"
    digests = list(_contracts(case))
    if verdict.contract_digest not in digests:
        found = ", ".join(digest[:12] for digest in digests) or "none"
        yield f"verdict: judged under {verdict.contract_digest[:12]}, recorded contract: {found}"
    numbers = json.loads(case.read(f"lineage/{case.pair_id}/metrics.json"))
    if "suite" in numbers and numbers != verdict.metrics():
        yield "verdict: its numbers are not those of metrics.json"


def _contracts(case: Case) -> Iterator[str]:
    """Digests of the contracts among the record's documents."""
    for name in case.lock.deps:
        if name.endswith(".toml"):
            text = case.read(name).decode()
            try:
                yield Contract.model_validate(tomllib.loads(text)).digest
            except ValidationError:
                continue


def mlflow(case: Case, tracking: Tracking) -> Faults:
    """One version, with the record's tags, the verdict's numbers and the pair's files."""
    found = [version for version in tracking.versions() if version.pair_id == case.pair_id]
    if len(found) != 1:
        yield f"MLflow: {len(found)} versions are of pair {case.pair_id}, not one"
        return
    version, verdict = found[0], case.verdict
    where = f"MLflow: version {version.version}"
    for key, value in _expected_tags(case, verdict).items():
        if version.tags.get(key, "") != value:
            yield f"{where}: {key} {_change(value, version.tags.get(key))}"
    if verdict and not verdict.promoted and CHAMPION in version.aliases:
        yield f"{where} is champion and was rejected"
    logged = tracking.numbers(version.run_id)
    for name, number in (verdict.flat_metrics() if verdict else {}).items():
        if logged.get(name) != number:
            yield f"{where}: {name} is {logged.get(name)}, the verdict says {number}"
    with tempfile.TemporaryDirectory() as temporary:
        md5 = md5_tree(tracking.fetch(version, Path(temporary)))[0]
    if md5 != case.md5:
        yield f"{where}: the pair among its artifacts {_change(case.md5, md5)}"


def _expected_tags(case: Case, verdict: Verdict | None) -> dict[str, str]:
    pair = case.pair
    tags = {
        "dvc_md5": case.md5,
        "git_tag": case.record.tag,
        "parent": pair.parent or "",
        "generation": str(pair.generation),
        "pool": pair.pool or "",
    }
    if verdict:
        tags |= {"verdict": verdict.decision, "contract": verdict.contract_digest}
    return tags


def _change(recorded: str | None, found: str | None) -> str:
    if recorded is None or found is None:
        return "is not in the record" if recorded is None else "is missing"
    return f"is {found[:16]}, recorded as {recorded[:16]}"
