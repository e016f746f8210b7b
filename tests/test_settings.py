"""Settings: a variable over the file, and one line for each way to get them wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from macaron.errors import ConfigError
from macaron.profile import load_profile
from macaron.settings import Settings, cores, find_root, load_settings

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path, 'profile = "small"\n[budgets]\nworkers = 3\n')


def write(folder: Path, text: str) -> Path:
    (folder / "macaron.toml").write_text(text)
    return folder


def fault(project: Path) -> str:
    """The one line that loading ends in."""
    with pytest.raises(ConfigError) as caught:
        load_settings(project)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_the_file_is_over_the_default_and_a_variable_over_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(project).profile == "small"
    assert load_settings(project).budgets.step_timeout == 3600
    monkeypatch.setenv("MACARON_PROFILE", "tall")
    monkeypatch.setenv("MACARON_BUDGETS__STEP_TIMEOUT", "60")
    changed = load_settings(project)
    assert (changed.profile, changed.budgets.step_timeout) == ("tall", 60)
    assert changed.budgets.workers == 3, "the table's other keys stay"


def test_a_variable_may_hold_a_table(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MACARON_STORES", '{"state": "elsewhere"}')
    assert load_settings(project).state == project / "elsewhere"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profil = 'nano'", "profil: unknown key"),
        ("[stores]\nmlfow = ''", "stores.mlfow: unknown key"),
        ("[budgets]\nworkers = 'two'", "budgets.workers: input should be a valid integer"),
        ("[budgets]\nworkers = -1", "budgets.workers: input should be greater than or equal to 0"),
        ("stores = 3", "stores: input should be a valid dictionary"),
        ("profile = 'nano", "not TOML"),
        ("root = '/'", "root: is not set here"),
        ("a = 1\nb = 2", "a: unknown key, and 1 more"),
    ],
)
def test_a_faulty_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    line = fault(write(tmp_path, text))
    assert said in line
    assert str(tmp_path / "macaron.toml") in line


def test_a_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "macaron.toml").write_bytes(b"\xff\xfe\x00")
    assert "not TOML" in fault(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MACARON_PROFIL", "nano", "no such setting"),
        ("MACARON_STORES__MLFOW", "x", "no such setting"),
        ("MACARON_STORES__MLFLOW__X", "x", "no such setting"),
        ("MACARON_BUDGETS__WORKERS", "two", "valid integer"),
        ("MACARON_BUDGETS", "two", "not JSON"),
        ("MACARON_BUDGETS", '{"workers": -1}', "greater than or equal to 0"),
        ("MACARON_BUDGETS", '{"worker": 1}', "budgets.worker: unknown key"),
    ],
)
def test_a_faulty_variable_is_one_line_that_names_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    line = fault(project)
    assert line.startswith(f"{name}: ")
    assert said in line


def test_the_root_is_the_nearest_above_or_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    assert find_root(deep) == project.resolve()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with pytest.raises(ConfigError, match=r"no macaron\.toml here or above"):
        find_root(elsewhere)
    monkeypatch.setenv("MACARON_ROOT", str(project))
    assert find_root(elsewhere) == project.resolve()
    monkeypatch.setenv("MACARON_ROOT", str(elsewhere))
    with pytest.raises(ConfigError, match=r"MACARON_ROOT: no macaron\.toml"):
        find_root(project)


def test_stores_are_absolute(tmp_path: Path) -> None:
    local = load_settings(write(tmp_path, ""))
    assert local.mlflow_uri == f"sqlite:///{tmp_path}/.macaron/mlflow/mlflow.db"
    assert local.dvc_remote == f"{tmp_path}/.macaron/dvc-remote"
    named = '[stores]\nmlflow = "sqlite:///records.db"\ndvc_remote = "remote"'
    relative = load_settings(write(tmp_path, named))
    assert relative.mlflow_uri == f"sqlite:///{tmp_path}/records.db"
    assert relative.dvc_remote == f"{tmp_path}/remote"
    far = '[stores]\nmlflow = "http://localhost:5000"\ndvc_remote = "s3://bucket/pairs"'
    remote = load_settings(write(tmp_path, far))
    assert (remote.mlflow_uri, remote.dvc_remote) == ("http://localhost:5000", "s3://bucket/pairs")


def test_no_workers_means_one_a_core(tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, "")).workers == cores() >= 1
    assert load_settings(write(tmp_path, "[budgets]\nworkers = 3")).workers == 3


def test_settings_cannot_be_changed(project: Path) -> None:
    settings = load_settings(project)
    with pytest.raises(ValueError, match="frozen"):
        settings.profile = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("steps = ", "stepz = ", "grpo.stepz: unknown key"),
        ("group = 8", "group = 1", "grpo.group: input should be greater than 1"),
        ("rank = 8", "rank = 'eight'", "lora.rank: input should be a valid integer"),
        ('name = "nano"', "", "name: field required"),
        ("[lora]", "[lora", "not TOML"),
    ],
)
def test_a_faulty_profile_is_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (ROOT / "models" / "profiles" / "nano.toml").read_text()
    assert old in text
    file = tmp_path / "nano.toml"
    file.write_text(text.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_profile(file)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_shipped_settings_and_profiles_load() -> None:
    assert isinstance(load_settings(ROOT), Settings)
    for file in (ROOT / "models" / "profiles").glob("*.toml"):
        assert load_profile(file).name == file.stem


def test_the_reference_in_the_docs_is_up_to_date() -> None:
    command = [sys.executable, "scripts/settings_reference.py", "--check"]
    found = subprocess.run(
        command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr


def test_a_path_that_no_database_url_can_hold_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a%20b"
    folder.mkdir()
    (folder / "macaron.toml").write_text("")
    with pytest.raises(ConfigError, match="the project's path has %"):
        load_settings(folder)
