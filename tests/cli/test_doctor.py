"""`macaron doctor`: one line a check, a fault never hides the others, 1 where anything fails."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from macaron.cli import machine
from macaron.cli.checks import documents, parts
from macaron.cli.checks.check import Check
from macaron.settings import load_settings
from tests.cli.conftest import Command
from tests.tiny import tiny_base


def checks(found: str) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(found)}


def of(root: Path, name: str) -> Check:
    """One check of the stores and services."""
    return next(check for check in parts.checks(load_settings(root)) if check.name == name)


def test_a_whole_project_is_well(macaron: Command, root: Path) -> None:
    tiny_base(root / "models" / "nano")
    found = macaron("doctor")
    assert found.code == 0, found.out + found.err
    names = [line.split()[1] for line in found.out.splitlines()]
    assert names == [
        "python", "compiler", "git", "settings", "profile", "base", "contract", "harness",
        "disk", "memory", "torch", "mlflow", "dvc", "prefect", "sandbox", "cycle", "telemetry",
        "verifiers",
    ]  # fmt: skip
    assert not (root / ".macaron").exists(), "looking makes nothing"


def test_a_fault_does_not_hide_the_others(root: Path) -> None:
    (root / "contracts" / "v1.toml").write_text("nonsense = 1")
    (root / "contracts" / "hcp" / "nano.toml").unlink()
    found = {check.name: check for check in documents.checks(load_settings(root))}
    assert [found[name].level for name in ("profile", "base", "contract", "harness")] == [
        "ok", "fail", "fail", "fail",
    ]  # fmt: skip
    assert "no config.json" in found["base"].fact
    assert all(found[name].mend for name in ("base", "contract", "harness"))


def test_faulty_settings_end_it_with_their_line(macaron: Command, root: Path) -> None:
    (root / "macaron.toml").write_text("profil = 1")
    found = macaron("doctor", "--json")
    assert found.code == 1
    assert checks(found.out)["settings"]["fact"].endswith("unknown key (edit the file)")


def test_services_that_do_not_answer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setenv("MACARON_STORES__MLFLOW", "http://127.0.0.1:9")
    for name in ("prefect", "mlflow"):
        assert of(root, name).level == "fail"
        assert "http://127.0.0.1:9" in of(root, name).fact


def test_stores_that_cannot_be_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = root / ".macaron" / "mlflow" / "mlflow.db"
    database.parent.mkdir(parents=True)
    database.write_text("not a database, " * 100)
    assert of(root, "mlflow").level == "fail"
    database.unlink()
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE model_versions (name TEXT)")
    assert of(root, "mlflow").fact.endswith("0 versions")
    monkeypatch.setenv("MACARON_STORES__DVC_REMOTE", "nowhere://bucket")
    assert of(root, "dvc").level == "fail"


def test_the_sandbox_says_its_level_and_a_profile_can_demand_one(root: Path) -> None:
    found = of(root, "sandbox")
    assert found.level in ("ok", "warn") and "rlimits" in found.fact
    profile = root / "models" / "profiles" / "nano.toml"
    profile.write_text(f'sandbox = ["seccomp", "moat"]\n{profile.read_text()}')
    found = of(root, "sandbox")
    assert found.level == "fail"
    assert "nano.toml: sandbox: no level of isolation is named 'moat'" in found.fact


def test_a_machine_without_tools(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    lines = list(machine.missing(root, installing=False))
    assert [line.split(".")[0] for line in lines] == ["a C++ compiler, 'c++'", "git"]
    assert all("apt-get install" in line for line in lines)


def test_a_folder_without_git_history(tmp_path: Path) -> None:
    (line,) = machine.git(tmp_path)
    assert "a git repository with a commit" in line and "git clone" in line


def test_a_full_disk_is_said_before_installing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10**9))
    (line,) = machine.missing(root, installing=True)
    assert line.startswith("disk: 1.0 GB free in") and "6 GB needed" in line
    assert not list(machine.missing(root, installing=False))
