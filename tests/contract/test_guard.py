"""The loop reads the contract and can't write it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from macaron.contract.document import load_contract
from macaron.contract.guard import check_unchanged, read_only
from macaron.errors import ConfigError, DigestError
from macaron.files import write_atomic

SHIPPED = Path(__file__).parents[2] / "contracts" / "v1.toml"


@pytest.fixture
def contracts(tmp_path: Path) -> Path:
    folder = tmp_path / "contracts"
    folder.mkdir()
    shutil.copy(SHIPPED, folder / "v1.toml")
    (folder / "more").mkdir()
    (tmp_path / "mine.txt").write_text("x")
    return folder


WRITES: dict[str, Callable[[Path], object]] = {
    "text": lambda f: (f / "v1.toml").write_text("x"),
    "append": lambda f: (f / "v1.toml").open("a"),
    "update": lambda f: (f / "v1.toml").open("r+"),
    "new file": lambda f: (f / "new.toml").touch(),
    "descriptor": lambda f: os.open(f / "v1.toml", os.O_WRONLY),
    "atomic write": lambda f: write_atomic(f / "v1.toml", "x"),
    "rename over": lambda f: (f.parent / "mine.txt").rename(f / "v1.toml"),
    "rename away": lambda f: (f / "v1.toml").rename(f.parent / "gone"),
    "rename the folder": lambda f: f.rename(f.parent / "gone"),
    "rename above": lambda f: f.parent.rename(f.parent.parent / "gone"),
    "unlink": lambda f: (f / "v1.toml").unlink(),
    "remove": lambda f: shutil.rmtree(f),
    "rmdir": lambda f: (f / "more").rmdir(),
    "mkdir": lambda f: (f / "sub").mkdir(),
    "symlink": lambda f: (f / "link").symlink_to(f.parent / "mine.txt"),
    "hard link": lambda f: (f / "link").hardlink_to(f.parent / "mine.txt"),
    "chmod": lambda f: (f / "v1.toml").chmod(0o777),
    "truncate": lambda f: os.truncate(f / "v1.toml", 0),
    "through a link": lambda f: (f.parent / "link.toml").write_text("x"),
    "bytes path": lambda f: open(os.fsencode(f / "v1.toml"), "w"),  # noqa: SIM115, PTH123
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_refused(contracts: Path, name: str) -> None:
    (contracts.parent / "link.toml").symlink_to(contracts / "v1.toml")
    before = load_contract(contracts / "v1.toml")
    with (
        read_only(contracts),
        pytest.raises(ConfigError, match="contracts are read-only"),
    ):
        WRITES[name](contracts)
    assert load_contract(contracts / "v1.toml") == before


def test_relative_paths_are_seen(contracts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(contracts)
    with read_only(contracts), pytest.raises(ConfigError, match="read-only"):
        Path("v1.toml").write_text("x")


def test_reading_and_writing_elsewhere_go_on(contracts: Path) -> None:
    with read_only(contracts):
        assert (contracts / "v1.toml").read_text()
        assert list(contracts.iterdir())
        write_atomic(contracts.parent / "contracts-not.toml", "x")
        shutil.copy(contracts / "v1.toml", contracts.parent / "copy.toml")


def test_the_guard_ends(contracts: Path) -> None:
    with read_only(contracts), read_only(contracts):
        pass
    (contracts / "v1.toml").write_text("changed")
    assert (contracts / "v1.toml").read_text() == "changed"


def test_a_changed_contract_is_found(contracts: Path) -> None:
    path = contracts / "v1.toml"
    digest = load_contract(path).digest
    path.write_text("# a comment changes nothing\n" + path.read_text())
    assert check_unchanged(path, digest).digest == digest
    path.write_text(path.read_text().replace("margin = 0.05", "margin = 0.5"))
    with pytest.raises(DigestError, match="the contract changed during the cycle"):
        check_unchanged(path, digest)
