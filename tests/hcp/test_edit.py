"""Changing a field in a file: comments stay, and so does a file that would become invalid."""

from pathlib import Path

import pytest

from macaron.errors import ConfigError
from macaron.hcp.document import load_hcp, parse_hcp
from macaron.hcp.edit import set_field
from macaron.hcp.paths import get
from tests.hcp.test_document import SHIPPED
from tests.hcp.texts import FULL


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "harness.toml"
    path.write_text(FULL)
    return path


@pytest.mark.parametrize(
    ("path", "literal", "value"),
    [
        ("specialists.L0.temperature", "0.25", 0.25),
        ("specialists.L0.system", "Be kind, and brief.", "Be kind, and brief."),
        ("specialists.L0.system", '"two\\nlines"', "two\nlines"),
        ("specialists.L0.system", "'''two\nlines'''", "two\nlines"),
        ("specialists.L1.tools", '["shell"]', ["shell"]),
        ("specialists.L1.max_rounds", "3", 3),
        ("session.turn_s", "9", 9.0),
        ("workspace", "{ cpu_s = 9, level = ['seccomp'] }", None),
        ("hooks.0.text", "no", "no"),
        ("hooks.2", "{name='a', when='after_turn', pattern='x', action='note', text='y'}", None),
        ('tools."web.fetch".description', "Fetch.", "Fetch."),
        ('tools.search.parameters.properties."a.b".type', '"number"', "number"),
        ("tools.search.parameters.properties.new", "{ enum = [1, 'a'] }", {"enum": [1, "a"]}),
        ("skills.part", "{ description = 'How to part.', text = 'Say bye.' }", None),
    ],
)
def test_a_field_is_set_and_the_rest_stays(
    file: Path, path: str, literal: str, value: object
) -> None:
    before = load_hcp(file)
    edit = set_field(file, path, literal)
    assert load_hcp(file) == edit.hcp != before
    assert edit.changes and edit.migrations == ()
    assert value is None or get(edit.hcp, path) == value
    text = file.read_text()
    assert "# The harness of the tests." in text and 'name = "chat"   # its label' in text
    again = set_field(file, path, literal)
    assert again.changes == [] and file.read_text() == text, "the value that it has"


@pytest.mark.parametrize(
    ("path", "literal", "said"),
    [
        ("specialists.L0.temperature", '"hot"', "temperature: input should be a valid number"),
        ("specialists.L0.temperature", "hot", "hot: not TOML"),
        ("specialists.L0.system", "48", "input should be a valid string, found 48"),
        ("specialists.L1.tools", '["serch"]', "specialists.L1.tools.0: no tool 'serch'"),
        ("specialists.L0.sistem", '"x"', "specialists.L0.sistem: unknown key; there are name, "),
        ("specialists.L9.name", "x", "specialists.L9: no such field (there are L0, L1)"),
        ("hooks.7", "{}", "hooks.7: is not at the array's end, which has 2 items"),
        ("hooks.first.text", "x", "hooks: is an array, and 'first' no number (there are 2 items"),
        ("router.system.x", "1", "router.system: is a value, with no 'x' in it"),
        ("specialists.L0.system", "'a'\nname = 'b'", "is more than one value"),
        ("specialists..name", "x", "'specialists..name': is no path"),
        ("router.default", "L1\nversion = '9'", "no specialist"),
        ("version", '"2.0"', "version: is of a major that is not known"),
        ("tools", "{}", "no tool"),
    ],
)
def test_a_faulty_value_leaves_the_file_as_it_was(
    file: Path, path: str, literal: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        set_field(file, path, literal)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert file.read_text() == FULL
    assert list(file.parent.iterdir()) == [file]


def test_a_file_of_an_older_minor_is_migrated_when_it_is_written(file: Path) -> None:
    file.write_text(SHIPPED.read_text())
    edit = set_field(file, "memory.keep_turns", "3")
    assert [step[:10] for step in edit.migrations] == ["1.0 -> 1.1"]
    assert 'version = "1.1"' in file.read_text() and load_hcp(file).memory.keep_turns == 3


def test_sections_and_items_go_when_a_value_without_them_comes(file: Path) -> None:
    set_field(file, "specialists.L0.skills", "[]")
    assert set_field(file, "skills", "{}").hcp.skills == {}
    assert set_field(file, "hooks", "[]").hcp.hooks == ()
    assert "greet" not in file.read_text() and "[[hooks]]" not in file.read_text()


def test_line_ends_and_a_link_stay(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_bytes(FULL.replace("\n", "\r\n").encode())
    file.unlink()
    file.symlink_to(real)
    set_field(file, "workspace.cpu_s", "9")
    assert file.is_symlink() and real.read_bytes().count(b"\r\n") >= FULL.count("\n")
    assert parse_hcp(real.read_bytes().decode(), "f").hcp.workspace.cpu_s == 9
