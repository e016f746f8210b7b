"""Paths and changes: what a difference says, and what applying refuses."""

import pytest

from macaron.errors import ConfigError
from macaron.hcp.changes import ABSENT, Change, apply, assign, diff
from macaron.hcp.document import parse_hcp
from macaron.hcp.paths import get, split_path
from tests.hcp.texts import FULL

HCP = parse_hcp(FULL, "f").hcp


def changed(old: str, new: str) -> list[str]:
    """The difference that replacing a piece of the text makes."""
    assert old in FULL
    return [str(c) for c in diff(HCP, parse_hcp(FULL.replace(old, new, 1), "f").hcp)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("= 48", "= 50", ["specialists.L0.max_tokens: 48 -> 50"]),
        ("cpu_s = 7", "", ["workspace.cpu_s: 7 -> 5"]),
        ("# The harness of the tests.\n", "", []),
        (
            '"string" }',
            '"number" }',
            ['tools.search.parameters.properties.q.type: "string" -> "number"'],
        ),
        (
            '"a.b" = { type = "integer" }',
            '"a.b" = { type = "integer", minimum = 1 }',
            ['tools.search.parameters.properties."a.b".minimum: none -> 1'],
        ),
        ('required = ["q"]', "required = []", ['tools.search.parameters.required: ["q"] -> []']),
        ('text = "not allowed"', 'text = "no"', ['hooks.0.text: "not allowed" -> "no"']),
        (
            "[workspace]",
            '[skills.part]\ndescription = ""\ntext = "x"\n[workspace]',
            ['skills.part: none -> {"description":"","text":"x","trigger":""}'],
        ),
    ],
)
def test_a_difference_names_its_field(old: str, new: str, said: list[str]) -> None:
    assert changed(old, new) == said


def test_an_array_of_names_changes_as_a_whole_and_hooks_one_by_one() -> None:
    other = apply(
        HCP,
        [Change(("specialists", "L1", "tools"), ["search", "shell", "web.fetch"], ["shell"])],
    )
    assert [c.field for c in diff(HCP, other)] == ["specialists.L1.tools"]
    fewer = apply(HCP, [Change(("hooks", 1), values(1), ABSENT)])
    assert [(c.field, c.new) for c in diff(HCP, fewer)] == [("hooks.1", ABSENT)]
    assert [(c.field, c.old) for c in diff(fewer, HCP)] == [("hooks.1", ABSENT)]


def values(hook: int) -> object:
    return get(HCP, f"hooks.{hook}")


def test_one_and_true_and_one_point_nought_are_three_values() -> None:
    path = "tools.search.parameters.properties.q.default"
    one = apply(HCP, assign(HCP, path, 1))
    for other in (True, 1.0):
        assert len(assign(one, path, other)) == 1
        assert apply(one, assign(one, path, other)).digest != one.digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change(("workspace", "cpu_s"), 5, 9), "workspace.cpu_s: is 7, and the change is of 5"),
        (Change(("memory", "keep"), ABSENT, 1), "memory.keep: unknown key"),
        (Change(("skills", "x", "text"), "a", "b"), "skills.x: no such field (there are greet)"),
        (Change(("hooks", 0), values(0), ABSENT), "hooks.0: is not at the array's end"),
        (Change(("hooks", 3), ABSENT, values(0)), "hooks.3: is not at the array's end"),
        (Change(("router", "system", "x"), ABSENT, 1), "router.system: is a value"),
        (Change(("skills", "greet"), get(HCP, "skills.greet"), ABSENT), "no skill 'greet'"),
        (Change(("memory", "keep_turns"), 0, -1), "memory.keep_turns: input should be greater"),
    ],
)
def test_a_change_that_cannot_be_made_is_one_line(change: Change, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply(HCP, [change])
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_removing_what_is_not_there_and_adding_nothing_change_nothing() -> None:
    assert apply(HCP, [Change(("skills", "x"), ABSENT, ABSENT)]) == HCP


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("specialists.L1.tools.1", "shell"),
        ("hooks.1.negate", True),
        ('tools."web.fetch".source', "mcp:web"),
        ("tools.'web.fetch'.source", "mcp:web"),
        ('tools.search.parameters.properties."a.b".type', "integer"),
        ("workspace.wall_s", 20.0),
        ("version", "1.1"),
    ],
)
def test_a_field_is_found_by_its_path(path: str, value: object) -> None:
    assert get(HCP, path) == value


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("specialists.L7", "specialists.L7: no such field (there are L0, L1)"),
        ("tools.web", 'tools.web: no such field (there are search, shell, "web.fetch")'),
        ("hooks.2", "hooks.2: no such field (there are 2 items, from 0)"),
        ("hooks.-1", "hooks: is an array, and '-1' no number"),
        ("memory.keep_turns.x", "memory.keep_turns: is a value, with no 'x' in it"),
        ("", "'': is no path"),
        ("a b", "'a b': is no path"),
        ('"a', "is no path"),
        (r'"\q"', "not TOML"),
    ],
)
def test_a_path_to_nothing_is_one_line(path: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        get(HCP, path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_quotes_of_a_path_are_tomls() -> None:
    assert split_path(r'''a."b.c".'d"e'."\u00e9\n"''') == ("a", "b.c", 'd"e', "é\n")
