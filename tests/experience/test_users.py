"""Pseudonyms: the same for a name, of no use without the project's secret."""

import multiprocessing
import stat
from pathlib import Path

import pytest

from macaron.errors import DigestError
from macaron.experience.users import FILE, pseudonym
from macaron.settings import Settings


@pytest.fixture
def project(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path)


def test_a_name_has_one_pseudonym_in_a_project_and_another_elsewhere(tmp_path: Path) -> None:
    one, two = Settings(root=tmp_path / "one"), Settings(root=tmp_path / "two")
    assert pseudonym(one, "ada") == pseudonym(Settings(root=tmp_path / "one"), "ada")
    assert pseudonym(one, "ada") != pseudonym(one, "Ada")
    assert pseudonym(one, "ada") != pseudonym(two, "ada")
    assert len(pseudonym(one, "\ud800\0")) == 64


def test_the_secret_is_its_owners_and_the_name_is_nowhere(project: Settings) -> None:
    pseudonym(project, "ada-lovelace")
    assert [path.name for path in project.state.iterdir()] == [FILE]
    path = project.state / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "ada" not in path.read_text()


def test_processes_that_start_at_once_make_one_secret(project: Settings) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.starmap(pseudonym, [(project, "ada")] * 8)
    assert len(set(found)) == 1


@pytest.mark.parametrize("content", ["", "abc", "z" * 64])
def test_a_cut_secret_is_no_other_one(project: Settings, content: str) -> None:
    pseudonym(project, "ada")
    (project.state / FILE).write_text(content)
    with pytest.raises(DigestError, match="no secret of 32 bytes"):
        pseudonym(project, "ada")
