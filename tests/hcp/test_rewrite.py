"""Rewrites by the loop: what is applied, refused or kept for a person, and its record."""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from macaron.contract.document import load_contract
from macaron.errors import ConfigError, DigestError
from macaron.hcp.approval import approve
from macaron.hcp.changes import ABSENT, Change, apply, assign, diff
from macaron.hcp.document import HCP, load_hcp, parse_hcp
from macaron.hcp.ledger import Ledger
from macaron.hcp.paths import get
from macaron.hcp.rewrite import Rewrite, propose
from macaron.hcp.scope import check_pattern, covers, touched
from tests.hcp.texts import FULL

ROOT = Path(__file__).resolve().parents[2]
OLD = parse_hcp(FULL, "f").hcp
EVERYTHING = ("*",)
SHELL_ONLY = {"specialists.L1.tools": ["shell"]}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "hcp")


def asked(
    ledger: Ledger, fields: dict[str, Any], scope: tuple[str, ...] = EVERYTHING, hcp: HCP = OLD
) -> Rewrite:
    """What comes of asking for fields to have values, one after the other."""
    new = hcp
    for path, value in fields.items():
        new = apply(new, assign(new, path, value))
    return propose(hcp, diff(hcp, new), scope, ledger, why="a test")


def test_a_rewrite_within_the_scope_is_applied_and_recorded(ledger: Ledger) -> None:
    found = asked(ledger, {"specialists.L0.system": "Be kind."}, ("specialists.*.system",))
    assert (found.decision, found.reasons) == ("applied", ())
    assert get(found.hcp, "specialists.L0.system") == "Be kind."
    (record,) = ledger.records()
    assert (record.event, record.id) == ("applied", found.id)
    assert (record.facts["before"], record.facts["after"]) == (OLD.digest, found.hcp.digest)
    assert record.facts["changes"] == [
        {"path": "specialists.L0.system", "old": "Be brief.", "new": "Be kind."}
    ]
    assert record.facts["why"] == "a test" and record.at


@pytest.mark.parametrize(
    ("fields", "scope", "field"),
    [
        ({"specialists.L0.name": "talk"}, ("specialists.*.system",), "specialists.L0.name"),
        ({"specialists.L0.system": "x", "pool.passes": 1}, ("specialists.*",), "pool.passes"),
        ({"specialists.L0.system": "x"}, (), "specialists.L0.system"),
        # The scope comes before the review: what may not be asked for needs no person.
        ({"workspace.network": True}, ("specialists.*",), "workspace.network"),
        # A whole skill is more than its text.
        ({"skills.new": {"description": "", "text": "x"}}, ("skills.*.text",), "skills.new"),
    ],
)
def test_a_rewrite_outside_the_scope_is_refused_and_recorded(
    ledger: Ledger, fields: dict[str, Any], scope: tuple[str, ...], field: str
) -> None:
    found = asked(ledger, fields, scope)
    assert found.decision == "refused" and found.hcp == OLD
    assert found.reasons == (f"{field} is outside the write scope",)
    (record,) = ledger.records()
    assert (record.event, record.facts["reasons"]) == ("refused", list(found.reasons))
    assert ledger.waiting() == []


def test_an_invalid_rewrite_and_one_of_nothing_are_refused_and_recorded(ledger: Ledger) -> None:
    invalid = Change(("specialists", "L0", "skills"), ["greet"], ["great"])
    found = propose(OLD, [invalid], EVERYTHING, ledger)
    assert found.decision == "refused" and "no skill 'great'" in found.reasons[0]
    assert propose(OLD, [], EVERYTHING, ledger).reasons == ("it changes nothing",)
    stale = Change(("memory", "keep_turns"), 4, 5)
    assert "take the difference anew" in propose(OLD, [stale], EVERYTHING, ledger).reasons[0]
    assert [record.event for record in ledger.records()] == ["refused"] * 3


def test_a_change_that_says_less_than_it_does_is_seen_through(ledger: Ledger) -> None:
    """Scope and review look at the documents, and not at what the changes are called."""
    whole = dict(get(OLD, "specialists.L1")) | {"surface": "functions", "system": "x"}
    change = Change(("specialists", "L1"), get(OLD, "specialists.L1"), whole)
    found = propose(OLD, [change], ("specialists.*",), ledger)
    assert found.decision == "needs-review"
    narrow = propose(OLD, [change], ("specialists.*.system",), ledger)
    assert narrow.reasons == ("specialists.L1.surface is outside the write scope",)


HOOK = {"name": "new", "when": "before_tool", "pattern": "x", "action": "refuse"}
SENSITIVE: list[tuple[dict[str, Any], str]] = [
    ({"specialists.L1.tools": ["shell"]}, "tool exposure"),
    ({"specialists.L1.surface": "functions"}, "tool exposure"),
    ({"tools.search.description": "Find it all."}, "tool exposure"),
    (
        {"tools.new": {"description": "", "parameters": {"type": "object"}, "source": "pool"}},
        "tool",
    ),
    ({"mcp.web.timeout_s": 9.0}, "tool exposure"),
    ({"mcp.web.env": []}, "network"),
    ({"mcp.web.command": ["other"]}, "network"),
    ({"mcp.web": {"url": "https://a.example"}}, "network"),
    ({"workspace.network": True}, "network"),
    ({"workspace.memory_mib": 9999}, "workspace limits"),
    ({"session.max_turns": 9999}, "workspace limits"),
    ({"hooks.0.pattern": "nothing"}, "a safety hook"),
    ({"hooks.0.safety": False}, "a safety hook"),
    ({"hooks.1.safety": True}, "a safety hook"),
    ({"hooks.2": HOOK | {"safety": True}}, "a safety hook"),
    ({"hooks": []}, "a safety hook"),
]


@pytest.mark.parametrize(("fields", "what"), SENSITIVE)
def test_a_sensitive_rewrite_waits_for_a_person(
    ledger: Ledger, fields: dict[str, Any], what: str
) -> None:
    found = asked(ledger, fields)
    assert found.decision == "needs-review" and found.hcp == OLD
    assert any(what in reason for reason in found.reasons)
    (waiting,) = ledger.waiting()
    assert waiting.id == found.id
    kept = load_hcp(ledger.document(found.id))
    assert kept.digest == waiting.facts["after"] != OLD.digest


@pytest.mark.parametrize(
    "fields",
    [
        {"specialists.L1.system": "x"},
        {"specialists.L1.temperature": 0.7},
        {"skills.greet.text": "Say hi."},
        {"skills.new": {"description": "", "text": "x"}},
        {"hooks.1.text": "Please say bye."},
        {"hooks.2": HOOK},
        {"memory.keep_turns": 2},
        {"router.system": "x"},
    ],
)
def test_the_shipped_contract_opens_what_the_loop_is_for(
    ledger: Ledger, fields: dict[str, Any]
) -> None:
    scope = load_contract(ROOT / "contracts/v1.toml").rewritable
    assert asked(ledger, fields, scope).decision == "applied"


@pytest.mark.parametrize(
    "fields",
    [
        {"workspace.memory_mib": 9999},
        {"workspace.network": True},
        {"session.turn_s": 9999.0},
        {"mcp.web.command": ["other"]},
        {"pool.passes": 1},
        {"router.default": "L1"},
        {"specialists.L1.name": "boss"},
        {"specialists.L1.surface": "functions"},
    ],
)
def test_the_shipped_contract_keeps_the_rest_shut(ledger: Ledger, fields: dict[str, Any]) -> None:
    scope = load_contract(ROOT / "contracts/v1.toml").rewritable
    assert asked(ledger, fields, scope).decision == "refused"


def test_a_hook_put_before_a_safety_hook_touches_it() -> None:
    """A replacement that runs first could hide from it what it looks for."""
    early = HOOK | {"action": "replace", "pattern": "rm", "text": "r m"}
    values = get_hooks()
    first = parse_with_hooks([early, *values])
    last = parse_with_hooks([*values, early])
    elsewhere = parse_with_hooks([HOOK | {"when": "after_turn"}, *values])
    assert touched(OLD, first) == ["a safety hook"]
    assert touched(OLD, last) == touched(OLD, elsewhere) == []
    assert touched(OLD, parse_with_hooks(values[::-1])) == [], "they are of different moments"


def get_hooks() -> list[dict[str, Any]]:
    hooks: list[dict[str, Any]] = get(OLD, "hooks")
    return hooks


def parse_with_hooks(hooks: list[dict[str, Any]]) -> HCP:
    return HCP.model_validate(OLD.model_dump() | {"hooks": hooks})


def test_an_approved_rewrite_is_applied_when_it_is_proposed_again(ledger: Ledger) -> None:
    first = asked(ledger, SHELL_ONLY)
    again = asked(ledger, SHELL_ONLY)
    assert again == first and len(ledger.records()) == 1, "it waits once"
    record = approve(ledger, first.id[:6], "Ada", "they need no search")
    assert (record.facts["who"], record.facts["why"]) == ("Ada", "they need no search")
    assert record.at and record.facts["after"] == ledger.records()[0].facts["after"]
    assert ledger.waiting() == []
    found = asked(ledger, SHELL_ONLY)
    assert found.decision == "applied" and get(found.hcp, "specialists.L1.tools") == ["shell"]
    assert found.reasons == (f"approved by Ada at {record.at}",)
    assert [r.event for r in ledger.records()] == ["needs-review", "approved", "applied"]


def test_an_approval_is_of_exactly_one_rewrite(ledger: Ledger) -> None:
    approve(ledger, asked(ledger, SHELL_ONLY).id, "Ada")
    more = SHELL_ONLY | {"specialists.L1.system": "x"}
    assert asked(ledger, more).decision == "needs-review"
    elsewhere = asked(ledger, {"specialists.L1.system": "y"})
    other = asked(ledger, SHELL_ONLY, hcp=elsewhere.hcp)
    assert other.decision == "needs-review", "the same changes of another document"
    assert asked(ledger, SHELL_ONLY, ("skills.*",)).decision == "refused", "the scope still holds"


def test_what_cannot_be_approved_is_one_line(ledger: Ledger) -> None:
    found = asked(ledger, SHELL_ONLY)
    asked(ledger, {"workspace.network": True})
    refused = asked(ledger, {"pool.passes": 1}, ())
    cases = [
        ("", "Ada", "no rewrite of that name waits"),
        ("zzz", "Ada", "no rewrite of that name waits"),
        (refused.id, "Ada", "no rewrite of that name waits"),
        (found.id, "  ", "nobody is named"),
    ]
    for rewrite, who, said in cases:
        with pytest.raises(ConfigError, match=said) as caught:
            approve(ledger, rewrite, who)
        assert "\n" not in str(caught.value)
    approve(ledger, found.id, "Ada")
    with pytest.raises(ConfigError, match="Ada approved it at"):
        approve(ledger, found.id, "Bob")


def other_value(text: str) -> str:
    return text.replace("[workspace]", "[workspace]\nnetwork = true")


def other_comment(text: str) -> str:
    return text + "# looks harmless\n"


@pytest.mark.parametrize("change", [other_value, other_comment])
def test_a_document_that_changed_while_it_waited_cannot_be_approved(
    ledger: Ledger, change: Callable[[str], str]
) -> None:
    found = asked(ledger, SHELL_ONLY)
    file = ledger.document(found.id)
    kept = file.read_text()
    file.write_text(change(kept))
    with pytest.raises(DigestError, match="is not the document that was proposed"):
        approve(ledger, found.id, "Ada")
    file.unlink()
    with pytest.raises(DigestError, match="is not the document"):
        approve(ledger, found.id, "Ada")
    asked(ledger, SHELL_ONLY)
    assert file.read_text() == kept, "proposed anew, it is there again"
    approve(ledger, found.id, "Ada")


def first_line(lines: list[str]) -> list[str]:
    return [lines[0].replace("refused", "applied"), *lines[1:]]


def without_one(lines: list[str]) -> list[str]:
    return [lines[0], *lines[2:]]


def one_more(lines: list[str]) -> list[str]:
    forged = json.loads(lines[0]) | {"event": "approved", "facts": {"who": "Ada"}}
    return [*lines, json.dumps(forged)]


def no_record(lines: list[str]) -> list[str]:
    return [*lines, "{}"]


@pytest.mark.parametrize("tamper", [first_line, without_one, one_more, no_record])
def test_a_changed_record_is_found(
    ledger: Ledger, tamper: Callable[[list[str]], list[str]]
) -> None:
    for number in range(3):
        asked(ledger, {"memory.keep_turns": number + 1}, ())
    lines = ledger.file.read_text().splitlines()
    ledger.file.write_text("\n".join(tamper(lines)) + "\n")
    for use in (ledger.records, ledger.waiting, lambda: asked(ledger, SHELL_ONLY)):
        with pytest.raises(DigestError, match="is not what was recorded") as caught:
            use()
        assert "\n" not in str(caught.value)


def test_a_writer_that_died_in_a_line_stops_nobody(ledger: Ledger) -> None:
    asked(ledger, {"memory.keep_turns": 1}, ())
    with ledger.file.open("a") as file:
        file.write('{"previous": "abc", "ev')
    assert len(ledger.records()) == 1
    asked(ledger, {"memory.keep_turns": 2}, ())
    assert len(ledger.records()) == 2


def test_the_loop_has_no_way_to_approve() -> None:
    """Only the command line imports what approves."""
    users = []
    for room in ("macaron", "flows", "tasks"):
        for path in (ROOT / room).rglob("*.py"):
            names = [
                f"{getattr(node, 'module', '') or ''}.{alias.name}"
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names
            ]
            users += [path for name in names if "hcp.approval" in name]
    assert {str(path.relative_to(ROOT)) for path in users} == {"macaron/cli/hcp.py"}


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("skills.*", ("skills", "greet"), True),
        ("skills.*", ("skills", "greet", "text"), True),
        ("skills.*.text", ("skills", "greet"), False),
        ("specialists.*.system", ("specialists", "L1", "system"), True),
        ("specialists.*.system", ("specialists", "L1", "tools"), False),
        ("specialists.L?.top_p", ("specialists", "L3", "top_p"), True),
        ("hooks.*.text", ("hooks", 3, "text"), True),
        ("hooks.0", ("hooks", 1, "text"), False),
        ('tools."web.fetch"', ("tools", "web.fetch", "source"), True),
        ("*", ("memory", "keep_turns"), True),
    ],
)
def test_a_pattern_covers_what_it_matches_and_all_below(
    pattern: str, path: tuple[str | int, ...], covered: bool
) -> None:
    assert check_pattern(pattern) == pattern
    assert covers(pattern, path) is covered


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("specialists.*.promt", "should match a field in specialists.*; there are name, system"),
        ("promts.*", "should match a field; there are router, specialists"),
        ("version", "should match a field; there are router"),
        ("specialists.*.tools.0", "should end at specialists.*.tools, which changes as a whole"),
        ("memory.keep_turns.x", "should end at memory.keep_turns"),
        ("hooks.first", "should give an item in hooks by its number, or *"),
        ("specialists.a b.system", "should be a pattern of paths"),
        ("", "should be a pattern of paths"),
    ],
)
def test_a_pattern_that_covers_nothing_is_refused_with_the_contract(
    tmp_path: Path, pattern: str, said: str
) -> None:
    text = (ROOT / "contracts/v1.toml").read_text()
    file = tmp_path / "v2.toml"
    file.write_text(text.replace('"router.system"', json.dumps(pattern)))
    with pytest.raises(ConfigError) as caught:
        load_contract(file)
    assert "v2.toml: rewritable.0: " in str(caught.value) and said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_absent_is_not_none() -> None:
    assert Change(("a",), ABSENT, 1).to_json() == {"path": "a", "new": 1}
