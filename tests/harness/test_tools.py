"""Tools and the box they are in."""

from typing import Any

import pytest

from macaron.harness.tools import Tool, ToolBox, ToolFault, as_text
from tests.harness.play import ADD, environment


def test_a_call_is_text_in_and_text_out() -> None:
    box = ToolBox(environment())
    assert box.call("add", '{"a": 2, "b": 3}') == "5"
    assert box.call("find", '{"id": "x"}') == '{"id": "x", "open": true}'
    assert box.call("find", '{"id": "y"}') == "Error: there is no y"
    assert box.call("add", "").startswith("Error: add: 'a' is a required property")
    assert box.call("add", "[" * 100_000).startswith("Error: add: the arguments are not JSON")


def test_a_tool_never_sees_arguments_that_its_schema_forbids() -> None:
    seen: list[Any] = []
    box = ToolBox([Tool("add", "", ADD, seen.append)])
    for arguments in ({"a": 1}, {"a": 1, "b": "2"}, {"a": 1, "b": 2, "c": 3}, [1, 2], None):
        with pytest.raises(ToolFault) as caught:
            box.run("add", arguments)
        assert caught.value.kind == "malformed"
    assert seen == []


def test_a_schema_is_never_fetched() -> None:
    remote = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}
    with pytest.raises(Exception, match=r"schema\.json"):
        Tool("t", "", remote, lambda arguments: 0).check({"a": 1})


def test_a_fault_quotes_only_so_much() -> None:
    text = ToolBox(environment()).call("find", '{"id": "' + "y" * 10_000 + '"}')
    assert len(text) < 600


def test_names_are_their_own() -> None:
    with pytest.raises(ValueError, match="share a name"):
        ToolBox([*environment(), *environment()])


@pytest.mark.parametrize(
    ("value", "text"), [("é", "é"), ({"a": "é"}, '{"a": "é"}'), (None, "null")]
)
def test_a_text_is_read_as_it_is_and_the_rest_as_json(value: Any, text: str) -> None:
    assert as_text(value) == text
