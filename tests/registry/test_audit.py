"""An audit finds a flipped byte in every copy, and a claim that is not so in every store."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from macaron.pair import Pair
from macaron.registry import checks
from macaron.registry.audit import Finding, _findings, audit, main
from macaron.registry.tracking import Tracking
from tests.contract.outcomes import contract
from tests.registry.parts import make_verdict
from tests.registry.project import Project, git, make_project

pytestmark = pytest.mark.full


@dataclass(frozen=True)
class Night:
    """One recorded and registered pair."""

    project: Project
    tracking: Tracking
    parent: Pair
    pair: Pair
    version: int

    def faults(self) -> list[str]:
        found = audit(self.pair.id, self.project.pairs, self.project.lineage, self.tracking)
        return [finding.text for finding in found if not finding.ok]

    def finds(self, check: Callable[[checks.Case], checks.Faults]) -> bool:
        """Whether one check finds a fault."""
        lineage = self.project.lineage
        record = lineage.find(self.pair.id)
        assert record is not None
        case = checks.Case(
            self.pair.id, record, lineage.lock(self.pair.id), self.project.pairs, lineage
        )
        return any(not finding.ok for finding in _findings("check", check(case)))


@pytest.fixture
def night(tmp_path: Path, tracking: Tracking) -> Night:
    project = make_project(tmp_path / "project")
    parent = project.recorded(1.0)
    pair = project.pair(2.0, parent)
    # The verdict is judged under the tests' contract; make it the recorded one.
    under = project.root / "contracts" / "v1.toml"
    under.write_text(_toml())
    record = project.record(pair)
    verdict = make_verdict(True, pair.id)
    run = tracking.cycle_run("night-1", {}, {})
    tracking.log_verdict(run, verdict)
    tags = {
        "pair_id": pair.id,
        "parent": parent.id,
        "generation": "1",
        "contract": verdict.contract_digest,
        "dvc_md5": record.dvc_md5,
        "git_tag": record.tag,
        "verdict": "promoted",
    }
    version = tracking.register(project.pairs.folder(pair.id), run, tags)
    return Night(project, tracking, parent, pair, version)


def _toml() -> str:
    """The tests' contract as a file."""
    suites = "".join(
        f'[[suites]]\nname = "{s.name}"\nenvironment = "{s.environment}"\n'
        f'specialist = "{s.specialist}"\nitems = {s.items}\nrole = "{s.role}"\n'
        for s in contract().suites
    )
    return (
        'version = "1.0"\nname = "test"\nseed = 1\nrewritable = []\n'
        "[gates]\nalpha = 0.05\nminimum_effect = 0.03\nmargin = 0.05\n"
        f"[experience]\nmax_quarantined = 0.2\n{suites}"
    )


def flip(path: Path) -> None:
    """Turns over one bit in the middle, however protected the file is."""
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_whole_pair_passes(night: Night) -> None:
    found = audit(night.pair.id, night.project.pairs, night.project.lineage, night.tracking)
    assert [f for f in found if not f.ok] == [] and len(found) == 8
    assert {str(f).split()[1] for f in found} == {
        *("git:", "pair:", "DVC", "workspace:", "verdict:", "MLflow:")
    }
    ancestor = audit(night.parent.id, night.project.pairs, night.project.lineage)
    assert [f for f in ancestor if not f.ok] == [] and len(ancestor) == 7


def copies(night: Night) -> dict[str, list[Path]]:
    """Every file that holds a byte of the pair or its evidence, by where it is kept.

    DVC's cache also has the metrics, which git keeps and nobody reads there.
    """
    root, pair = night.project.root, night.pair.id
    locks = [night.project.lineage.lock(p.id) for p in (night.parent, night.pair)]
    metrics = {md5 for lock in locks for name, md5 in lock.outs.items() if "metrics" in name}
    workspace = root / "workspace"
    own = [workspace / "models" / "pairs" / pair, workspace / "lineage" / "data"]
    places = {
        "pair": [night.project.pairs.folder(pair)],
        "DVC remote": [night.project.remote],
        "workspace": own,
        "workspace cache": [workspace / ".dvc" / "cache" / "files"],
        "MLflow": [night.tracking.artifacts],
    }
    return {
        name: [
            p
            for folder in folders
            for p in sorted(folder.rglob("*"))
            if is_data(p) and p.parent.name + p.name not in metrics
        ]
        for name, folders in places.items()
    }


def is_data(path: Path) -> bool:
    return path.is_file() and path.suffix != ".dvc" and path.name != ".gitignore"


def test_a_flipped_byte_is_found_in_every_copy(night: Night) -> None:
    looks = {
        "pair": checks.folder,
        "DVC remote": checks.remote,
        "workspace": checks.workspace,
        "workspace cache": checks.workspace,
        "MLflow": lambda case: checks.mlflow(case, night.tracking),
    }
    for place, files in copies(night).items():
        assert files, place
        for path in files:
            whole = path.read_bytes()
            flip(path)
            assert night.finds(looks[place]), path
            path.write_bytes(whole)
    flip(copies(night)["pair"][0])
    # Named once as a file, once against the manifest where that has a digest for it.
    faults = night.faults()
    assert 1 <= len(faults) <= 2
    for fault in faults:
        assert fault.startswith(f"pair: {night.project.pairs.folder(night.pair.id)}"), fault


def test_a_missing_copy_is_found(night: Night) -> None:
    for place in ("pair", "DVC remote", "MLflow"):
        path = copies(night)[place][-1]
        whole = path.read_bytes()
        path.unlink()
        assert night.faults(), path
        path.write_bytes(whole)


def test_a_flipped_byte_in_git_is_found(night: Night) -> None:
    root, tag = night.project.root, f"pair/{night.pair.id}"
    names = [tag, f"{tag}^{{tree}}", f"{tag}:lineage/{night.pair.id}"]
    listed = git(root, "ls-tree", "-r", "--name-only", tag, f"lineage/{night.pair.id}/")
    names += [f"{tag}:{name}" for name in listed.splitlines()]
    assert len(names) == 8
    for name in names:
        oid = git(root, "rev-parse", name)
        path = root / ".git" / "objects" / oid[:2] / oid[2:]
        whole = path.read_bytes()
        flip(path)
        assert night.faults(), name
        path.write_bytes(whole)
    assert night.faults() == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dvc_md5", "0" * 32 + ".dir"),
        ("git_tag", "pair/other"),
        ("contract", "f" * 64),
        ("verdict", "rejected"),
        ("parent", ""),
        ("generation", "2"),
    ],
)
def test_a_wrong_tag_in_mlflow_is_found(night: Night, key: str, value: str) -> None:
    night.tracking._tag(night.version, key, value)
    (fault,) = night.faults()
    assert fault.startswith(f"MLflow: version 1: {key}")


def test_wrong_numbers_in_mlflow_are_found(night: Night) -> None:
    run = night.tracking.versions()[0].run_id
    night.tracking.log_steps(run, [{"step": 1, "suite/chat/challenger": 0.99}])
    (fault,) = night.faults()
    assert "suite/chat/challenger is 0.99, the verdict says 0.8" in fault


def test_an_unregistered_pair_is_found(night: Night) -> None:
    night.tracking.client.delete_model_version("macaron", "1")
    assert night.faults() == [f"MLflow: 0 versions are of pair {night.pair.id}, not one"]


def test_a_moved_tag_is_found(night: Night) -> None:
    root = night.project.root
    git(root, "tag", "-f", f"pair/{night.pair.id}", f"pair/{night.parent.id}")
    assert any("git: " in fault for fault in night.faults())
    git(root, "tag", "-d", f"pair/{night.pair.id}")
    assert night.faults() == [f"git: there is no tag pair/{night.pair.id} that can be read"]


def test_a_verdict_under_another_contract_is_found(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    parent = project.recorded(1.0)
    # Judged under the tests' contract while the shipped one is recorded.
    pair = project.recorded(2.0, parent)
    found = audit(pair.id, project.pairs, project.lineage)
    (fault,) = [finding for finding in found if not finding.ok]
    assert fault.text.startswith("verdict: judged under")
    assert str(replace(fault, text="x")) == "FAIL  x" and str(Finding(True, "x")) == "ok    x"


def test_the_command_prints_a_line_a_check(
    night: Night, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, stores = night.project.root, night.tracking
    (root / "macaron.toml").write_text(
        f'[stores]\nmlflow = "{stores.uri}"\ndvc_remote = "{night.project.remote}"\n'
    )
    monkeypatch.setenv("MACARON_ROOT", str(root))
    assert main([night.pair.id[:6]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8 and all(line.startswith("ok    ") for line in lines)
    night.tracking._tag(night.version, "git_tag", "pair/other")
    assert main([night.pair.id]) == 1
    assert "FAIL  MLflow: version 1: git_tag" in capsys.readouterr().out
