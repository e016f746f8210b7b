"""Loading: what is read, and one line for each way to get a document wrong."""

import os
import tomllib
from pathlib import Path

import pytest

from macaron.errors import ConfigError
from macaron.hcp.document import HCP, load_hcp, parse_hcp, read_hcp
from tests.hcp.texts import FULL
from tests.project import HOUSE

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "contracts/hcp/nano.toml"
TOOL = "[tools.search]"


def fault(text: str) -> str:
    """The one line that loading ends in."""
    with pytest.raises(ConfigError) as caught:
        parse_hcp(text, "harness.toml")
    line = str(caught.value)
    assert line.startswith("harness.toml: ") and len(line.splitlines()) == 1
    return line


def test_the_shipped_documents_digest_is_that_of_schema_1_0() -> None:
    """It is in pairs and experience, so that no later schema may move it."""
    digest = "1eb95310c59550bf2c9ffdd1403f152049c1458c523adc0bb959a5991a4e7d12"
    assert load_hcp(SHIPPED).digest == digest


def test_a_document_of_every_section_is_read() -> None:
    loaded = parse_hcp(FULL, "f")
    assert loaded.migrations == ()
    hcp = loaded.hcp
    assert hcp.specialists["L1"].tools == ("search", "shell", "web.fetch")
    assert (hcp.workspace.cpu_s, hcp.workspace.wall_s, hcp.memory.summary_tokens) == (7, 20.0, 192)
    assert [hook.safety for hook in hcp.hooks] == [True, False]
    assert hcp.mcp["web"].timeout_s == 30


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # Unknown fields: what there is instead.
        ("skills = [", "skils = [", "specialists.L0.skils: unknown key; there are name, system, "),
        ("[workspace]", "[work]", "work: unknown key; there are version, router, specialists, "),
        ("negate = true", "negat = true", "hooks.1.negat: unknown key; there are name, when, "),
        # Wrong types: nothing is taken for another type's value.
        (
            "= 48",
            '= "48"',
            "specialists.L0.max_tokens: input should be a valid integer, found '48'",
        ),
        ("= 48", "= 48.0", "specialists.L0.max_tokens: input should be a valid integer"),
        ("= 48", "= true", "specialists.L0.max_tokens: input should be a valid integer"),
        ("= 48", "= 0", "specialists.L0.max_tokens: input should be greater than 0, found 0"),
        ("= 0.5", "= inf", "specialists.L0.temperature: input should be a finite number"),
        ('["greet"]', '"greet"', "specialists.L0.skills: input should be a valid tuple"),
        ('"repl"', '"python"', "specialists.L1.surface: input should be 'functions', 'repl' or "),
        ('"before_tool"', '"early"', "hooks.0.when: input should be 'before_turn', "),
        ('"refuse"', '"stop"', "hooks.0.action: input should be 'refuse', 'replace', "),
        ('name = "chat"', "name = 2026-01-01", "specialists.L0.name: input should be a valid str"),
        ('name = "chat"', "", "specialists.L0.name: field required"),
        # Names that are not there.
        ('"search", "sh', '"serch", "sh', "specialists.L1.tools.0: no tool 'serch'; there are se"),
        ('["greet"]', '["great"]', "specialists.L0.skills.0: no skill 'great'; there are greet"),
        ("mcp:web", "mcp:net", "tools.\"web.fetch\".source: no MCP server 'net'; there are web"),
        ('tools = ["shell"]', 'tools = ["sh"]', "hooks.0.tools.0: no tool 'sh'; there are sear"),
        ('"before_tool"\n', '"before_tool"\nspecialists = ["L9"]\n', "hooks.0.specialists.0: no s"),
        ('"L0"', '"L2"', "router.default: no specialist 'L2'; there are L0, L1, found 'L2'"),
        # Names that are there twice.
        ('"agent"\ns', '"chat"\ns', "specialists.L1.name: should be its own, and L0 has it, found"),
        ('"sign"', '"no-delete"', "hooks.1.name: should be its own, and hooks.0 has it"),
        ('["greet"]', '["greet", "greet"]', "specialists.L0.skills: should name each once ('gr"),
        # Sources, patterns, schemas.
        ('"environment"', '"disk"', "tools.search.source: should be 'environment', 'builtin', "),
        ('"environment"', '"builtin"', "tools.search.source: should be of load_skill, save_tool"),
        ("(?i)hello", "(", "skills.greet.trigger: should be a regular expression (missing )"),
        ('"rm -rf"', '"["', "hooks.0.pattern: should be a regular expression"),
        (
            '"string" }',
            '"strin" }',
            "tools.search.parameters: should be a JSON Schema (properties.",
        ),
        ('type = "object"\nr', 'type = "array"\nr', "tools.search.parameters: should be a JSON Sc"),
        ('"string" }', '"string", default = nan }', "tools.search.parameters: should hold texts, "),
        ('"string" }', '"string", default = 2026-01-01 }', "arrays and tables only (date)"),
        (TOOL, '[tools."se arch"]', 'tools."se arch": name string should match pattern'),
        # What fits within a section.
        ("command =", 'url = "https://x"\ncommand =', "mcp.web: should have either a command or"),
        (
            'command = ["web-server", "--stdio"]',
            'url = "ftp://x"',
            "mcp.web: url should be an http",
        ),
        ('"WEB_TOKEN"', '"WEB_TOKEN=secret"', "mcp.web.env.0: string should match pattern"),
        ('"before_stop"', '"after_turn"', "hooks.1: continue is an action of before_stop, not of "),
        ('"before_tool"', '"before_turn"', "hooks.0: tools are of before_tool and after_tool, not"),
        ('"continue"', '"replace"', "hooks.1: replace has nothing to replace where negate is set"),
        ('"Say bye."', '""', "hooks.1: continue should have a text"),
        ("[workspace]", "[pool]\ntrials = 3\n[workspace]", "pool: passes should be at most trials"),
        ("cpu_s = 7", "cpu_s = 7 7", "not TOML: "),
    ],
)
def test_a_faulty_document_is_one_line(old: str, new: str, said: str) -> None:
    assert FULL.count(old) >= 1
    assert said in fault(FULL.replace(old, new, 1))


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ('"2.0"', "version: is of a major that is not known; 1.0 and 1.1 are, found '2.0'"),
        ('"1.2"', "version: is newer than this code reads; 1.0 and 1.1 are known, found '1.2'"),
        ('"one"', "version: should be a text like '1.1', found 'one'"),
        ("1.1", "version: should be a text like '1.1', found 1.1"),
    ],
)
def test_an_unknown_version_is_one_line(version: str, said: str) -> None:
    assert said in fault(FULL.replace('"1.1"', version, 1))
    assert "version: should be given" in fault(FULL.replace('version = "1.1"', "", 1))


def test_no_file_and_no_text_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name, said in {
        "no.toml": "no such file",
        "binary.toml": "not TOML",
        ".": "is no file",
    }.items():
        with pytest.raises(ConfigError, match=said) as caught:
            load_hcp(tmp_path / name)
        assert "\n" not in str(caught.value)
    assert "not TOML" in fault("a = " + "[" * 9999)


def test_an_older_minor_is_migrated_and_the_migration_is_told(tmp_path: Path) -> None:
    text = SHIPPED.read_text()
    assert tomllib.loads(text)["version"] == "1.0"
    loaded = read_hcp(SHIPPED)
    assert loaded.hcp.version == "1.1"
    assert loaded.migrations == ("1.0 -> 1.1: fields that are new have their defaults",)
    newer = parse_hcp(text.replace('"1.0"', '"1.1"'), "f")
    assert newer.migrations == () and newer.hcp == loaded.hcp
    assert newer.hcp.digest == loaded.hcp.digest


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[router]", "[memory]\nkeep_turns = 2\n[router]", "memory: is of HCP 1.1: set version"),
        (
            "[specialists.L1]",
            "[specialists.L1]\ntop_p = 0.5",
            "specialists.L1.top_p: is of HCP 1.1",
        ),
        ("[specialists.L1]", "[specialists.L1]\ntop = 0.5", "specialists.L1.top: unknown key"),
    ],
)
def test_an_older_minor_may_not_have_later_fields(old: str, new: str, said: str) -> None:
    assert said in fault(SHIPPED.read_text().replace(old, new, 1))


@pytest.mark.parametrize("text", ["", "version = '1.0'", "version = '1.0'\nspecialists = 3"])
def test_a_document_of_nearly_nothing_is_one_line(text: str) -> None:
    fault(text)


def test_the_order_of_names_and_of_a_schemas_keys_is_not_kept() -> None:
    """What a model is shown must not depend on what the digest does not know."""
    tools = {
        name: {
            "description": "",
            "source": "pool",
            "parameters": {"type": "object", "properties": {"b": {}, "a": {}}},
        }
        for name in ("second", "first")
    }
    values = tomllib.loads(FULL.split("[tools.search]")[0].replace('tools = ["search", ', "# "))
    values["specialists"]["L0"].pop("skills")
    hcp = HCP.model_validate(values | {"tools": tools})
    assert list(hcp.tools) == ["first", "second"]
    assert list(hcp.tools["first"].parameters["properties"]) == ["a", "b"]


def test_a_document_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_hcp(SHIPPED).version = "1.1"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("max_tokens = 48", f"max_tokens = {'9' * 5000}"), "not TOML"),
        (('type = "integer"', '"$ref" = "#/nowhere"'), "#/nowhere leads nowhere"),
        (('type = "integer"', '"$ref" = "http://127.0.0.1:1/x"'), "leads nowhere"),
    ],
)
def test_what_only_a_newcomer_writes_is_one_line(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    text = (HOUSE / "contracts/hcp/nano.toml").read_text() + TOOL
    assert change[0] in text
    file = tmp_path / "odd.toml"
    file.write_text(text.replace(*change, 1).replace('version = "1.0"', 'version = "1.1"'))
    with pytest.raises(ConfigError, match=said) as caught:
        load_hcp(file)
    assert "\n" not in str(caught.value)


def test_a_pipe_and_a_giant_are_no_documents(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "giant.toml").write_text("#" * (5 << 20))
    for name, said in {"pipe.toml": "is no file", "giant.toml": "are allowed"}.items():
        with pytest.raises(ConfigError, match=said):
            load_hcp(tmp_path / name)


TOOL = """
[tools.find]
description = "finds"
source = "environment"

[tools.find.parameters]
type = "object"
properties.number.type = "integer"
"""
