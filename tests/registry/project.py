"""A scratch project in git, with pairs and lineage: what the registry works on."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from macaron.pair import Pair
from macaron.registry.lineage import Lineage, Record
from macaron.registry.pairs import PairStore
from tests.registry.parts import make_pair, make_verdict

CONTRACT = Path(__file__).parents[2] / "contracts" / "v1.toml"
IGNORED = "/workspace/\n/models/pairs/\n/data/experience/\n/.macaron/\n"


def git(folder: Path, *args: str) -> str:
    """Git's output, in a folder."""
    ran = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@dataclass(frozen=True)
class Project:
    """The project's folder and its stores."""

    root: Path

    @property
    def pairs(self) -> PairStore:
        return PairStore(self.root / "models" / "pairs")

    @property
    def remote(self) -> Path:
        return self.root / ".macaron" / "dvc-remote"

    @property
    def lineage(self) -> Lineage:
        return Lineage(self.root, self.root / "workspace", str(self.remote))

    @property
    def evidence(self) -> list[Path]:
        """Contract, bank and one night's experience."""
        return [
            self.root / "contracts" / "v1.toml",
            self.root / "data" / "bank.jsonl",
            self.root / "data" / "experience" / "night.parquet",
        ]

    def pair(self, value: float, parent: Pair | None = None, promoted: bool = True) -> Pair:
        """A judged pair on disk; an ancestor is not judged."""
        pair = make_pair(self.pairs, self.root / ".macaron", value, parent)
        if parent:
            self.pairs.attach_verdict(pair.id, make_verdict(promoted, pair.id))
        return pair

    def record(self, pair: Pair) -> Record:
        """Its record."""
        verdict = self.pairs.verdict(pair.id)
        return self.lineage.record(
            pair.id,
            parent=pair.parent,
            pair_folder=self.pairs.folder(pair.id),
            files=self.evidence,
            params={"seed": 7, "profile": "nano"},
            metrics=verdict.metrics() if verdict else {},
            message=f"Generation {pair.generation}: {verdict.decision if verdict else 'ancestor'}",
        )

    def recorded(self, value: float, parent: Pair | None = None, promoted: bool = True) -> Pair:
        """A pair that is on disk and recorded."""
        pair = self.pair(value, parent, promoted)
        self.record(pair)
        return pair


def make_project(root: Path) -> Project:
    """A project with one commit, and experience that git ignores."""
    (root / "macaron").mkdir(parents=True)
    (root / "macaron" / "code.py").write_text("answer = 42\n")
    (root / "contracts").mkdir()
    (root / "contracts" / "v1.toml").write_text(CONTRACT.read_text())
    (root / "data" / "experience").mkdir(parents=True)
    (root / "data" / "bank.jsonl").write_text('{"task": 1}\n')
    (root / "data" / "experience" / "night.parquet").write_bytes(b"PAR1 rows PAR1")
    (root / ".gitignore").write_text(IGNORED)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "The project")
    return Project(root)
