"""`macaron serve keys`, as a group of its own until the server's command holds it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from macaron.cli.serve_keys import keys_app
from macaron.errors import ConfigError
from macaron.serve.http.keys import KeyFile
from macaron.settings import load_settings


@pytest.fixture
def file(root: Path, monkeypatch: pytest.MonkeyPatch) -> KeyFile:
    monkeypatch.chdir(root)
    return KeyFile(load_settings(root).serve_keys)


def run(*arguments: str) -> str:
    found = CliRunner().invoke(keys_app, arguments, standalone_mode=False)
    if found.exception:
        raise found.exception
    return found.output


def test_a_key_is_shown_once_and_taken_back(file: KeyFile) -> None:
    token = run("add", "anna", "--scope", "chat, admin", "--expires", "2100-01-01").strip()
    key = file.find(token)
    assert key is not None and key.scopes == ("chat", "admin")
    (row,) = json.loads(run("list", "--json"))
    assert (row["id"], row["name"]) == (key.id, "anna")
    # The option is in this machine's time, the file in UTC.
    assert row["expires_at"][:4] in ("2099", "2100")
    assert "digest" not in row and token not in run("list")
    assert "anna" in run("list")
    assert f"{key.id} (anna) is revoked" in run("revoke", key.id)
    assert file.find(token) is None and "no keys" in run("list")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "x", "--scope", "root"), "no such scope"),
        (("add", "x", "--expires", "2001-01-01"), "in the past"),
        (("revoke", "x"), "no such key"),
    ],
)
def test_faults_are_one_line(file: KeyFile, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run(*arguments)
    assert file.keys() == {}
