"""The allowlist: what the HCP lists, and nothing else."""

from typing import Any

import pytest

from macaron.errors import ConfigError
from macaron.harness.allowlist import mismatch, tool_box
from macaron.harness.session import Session
from macaron.harness.tools import Tool
from tests.harness.play import ADD, call, environment, harness, play, user


def test_only_what_is_listed_can_be_seen_or_called(chatml: Any) -> None:
    one = Session(chatml, harness(tools=["add"]), {"environment": environment()})
    turn, requests = play(one, chatml, [user("Find")], [call("find", '{"id": "x"}'), "No."])
    assert "Finds." not in chatml.decode(requests[0].prompt)
    assert turn.messages[2]["content"] == "Error: no tool is named 'find'; the tools are: add"
    assert turn.faults == {"unknown": 1}


def test_the_order_and_the_words_are_the_documents() -> None:
    box = tool_box(harness(tools=["find", "add"]), "L1", {"environment": environment()})
    shown = [(s["function"]["name"], s["function"]["description"]) for s in box.specs()]
    assert shown == [("find", "Finds."), ("add", "Adds.")]


def test_a_listed_tool_that_nobody_provides_is_one_line(chatml: Any) -> None:
    one = Session(chatml, harness(), {"environment": environment()[:1]})
    with pytest.raises(ConfigError) as caught:
        one.begin([user("Hi")], "L1")
    assert str(caught.value) == (
        "specialists.L1.tools: find should come from 'environment', which provides add "
        "(take it from the list, or give what provides it)"
    )


def test_a_tool_from_another_source_is_not_the_one() -> None:
    with pytest.raises(ConfigError, match="'environment', which provides no tools"):
        tool_box(harness(), "L1", {"mcp:server": environment()})


def test_a_demoted_helper_is_left_out() -> None:
    tools = {"helper": {"description": "Helps.", "parameters": ADD, "source": "pool"}}
    hcp = harness({"tools": tools}, tools=["add", "helper"])
    assert [t.name for t in tool_box(hcp, "L1", {"environment": environment()})] == ["add"]
    helper = Tool("helper", "", ADD, lambda arguments: 0)
    box = tool_box(hcp, "L1", {"environment": environment(), "pool": [helper]})
    assert [t.name for t in box] == ["add", "helper"]


def properties(**types: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {n: {"type": t} for n, t in types.items()}}


@pytest.mark.parametrize(
    ("declared", "provided", "difference"),
    [
        (properties(a="integer"), properties(a="integer", b="string"), ""),
        (properties(a="integer"), properties(a="number"), ""),
        (properties(a="string"), properties(a=["string", "null"]), ""),
        (properties(a="string"), {"type": "object"}, ""),
        (properties(a="number"), properties(a="integer"), "takes a as integer, not as number"),
        (properties(a="string"), properties(b="string"), "has no argument a"),
        (
            properties(a="string"),
            {**properties(a="string", b="string"), "required": ["b"]},
            "needs the argument b",
        ),
    ],
)
def test_signatures_are_compared(
    declared: dict[str, Any], provided: dict[str, Any], difference: str
) -> None:
    found = mismatch(declared, provided)
    assert found.startswith(difference) if difference else found == ""


def test_another_signature_is_one_line() -> None:
    other = [Tool("add", "", properties(a="string", b="string"), lambda arguments: 0)]
    with pytest.raises(ConfigError, match=r"^tools\.add\.parameters: add of 'environment' takes"):
        tool_box(harness(tools=["add"]), "L1", {"environment": other})
