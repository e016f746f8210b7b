"""What holds everywhere in the house: sizes, docstrings, what is imported when, what is shipped."""

import ast
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from macaron.profile import Profile, Section
from macaron.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(p for room in ("macaron", "flows", "tasks") for p in (ROOT / room).rglob("*.py"))
HEAVY = (
    "torch", "mlflow", "prefect", "dvc", "great_expectations", "transformers", "peft", "deepspeed",
)  # fmt: skip
NOT_FOR_HELP = (*HEAVY, "numpy", "pandas", "pyarrow", "scipy", "matplotlib", "tokenizers")
LIGHT_ROOMS = ("cli", "contract", "experience", "hcp", "registry")
# torch's and io's own words, which mean what they mean there.
INHERITED = {"forward", "backward", "write", "flush"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.Module) -> Iterator[Function]:
    yield from (n for n in ast.walk(tree) if isinstance(n, Function))


def public(tree: ast.Module | ast.ClassDef) -> Iterator[Function | ast.ClassDef]:
    """Public classes, functions and methods; a function's inner ones are nobody's interface."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_file_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert text.count("\n") <= 400
    assert not text.strip() or ast.get_docstring(tree), "no docstring opens it"
    long = [f.name for f in functions(tree) if (f.end_lineno or 0) - f.lineno + 1 > 60]
    assert not long, "longer than 60 lines"
    silent = {n.name for n in public(tree) if not ast.get_docstring(n)}
    assert silent <= INHERITED, "public without a docstring"


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_nothing_is_left_for_later(path: Path) -> None:
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")
    assert not [w for w in words if w in path.read_text()]


@pytest.mark.parametrize("room", LIGHT_ROOMS)
def test_light_rooms_import_nothing_heavy_at_module_level(room: str) -> None:
    found = []
    for path in (ROOT / "macaron" / room).rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [(named(path), n) for n in names if n.split(".")[0] in HEAVY]
    assert not found


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["improve", "--help"],
        ["pairs", "--help"],
        ["hcp", "--help"],
        ["doctor", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import json, sys\nfrom macaron.cli.main import run\n"
        f"assert run({arguments!r}) == 0\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = json.loads(shown.stdout.splitlines()[-1])
    assert not [name for name in loaded if name.split(".")[0] in NOT_FOR_HELP]


def test_the_mlflow_folder_cannot_shadow_the_library() -> None:
    assert not list((ROOT / "mlflow").rglob("*.py"))


def test_a_wheel_ships_the_library_only(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"macaron"}
    assert "macaron/cli/main.py" in names


def undescribed(kind: type[BaseModel]) -> Iterator[str]:
    for name, field in kind.model_fields.items():
        if not field.description:
            yield f"{kind.__name__}.{name}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from undescribed(inner)


@pytest.mark.parametrize("kind", [Settings, Profile])
def test_every_setting_says_what_it_is(kind: type[BaseModel]) -> None:
    assert not list(undescribed(kind))
