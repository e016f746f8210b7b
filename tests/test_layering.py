"""Imports go one way, and every room is in the list that says which."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOTS = ("macaron", "flows", "tasks")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("house")
    for name in ROOTS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_imports_go_one_way(copy: Path) -> None:
    found = lint(copy)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("macaron/mindforge/cycle.py", "import tasks"),
        ("macaron/engines/base.py", "import macaron.mindforge"),
        ("macaron/mol/router.py", "import macaron.environments"),
        ("macaron/errors.py", "def f() -> None:\n    import macaron.cli"),
    ],
)
def test_an_import_upwards_or_sideways_is_found(copy: Path, module: str, line: str) -> None:
    file = copy / module
    before = file.read_text()
    try:
        file.write_text(f"{before}\n{line}\n")
        found = lint(copy)
    finally:
        file.write_text(before)
    assert found.returncode == 1, found.stdout
    assert module.removesuffix(".py").replace("/", ".") in found.stdout


def test_every_room_is_in_the_layers() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    listed = {
        name.strip() for layer in config["contracts"][0]["layers"] for name in layer.split("|")
    }
    rooms = {
        f"macaron.{path.stem}"
        for path in (ROOT / "macaron").iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists()) and path.stem != "__init__"
    }
    assert rooms <= listed
