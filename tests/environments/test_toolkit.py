"""Tools from plain methods: the schema is the signature, and calls are checked against it."""

from typing import Any, Literal

import pytest

from macaron.environments.toolkit import tool
from macaron.harness.tools import ToolBox, ToolFault


class Desk:
    """A world of one number."""

    def __init__(self) -> None:
        self.count = 0

    def add(
        self, amount: int, title: str = "", how: Literal["up", "down"] = "up"
    ) -> dict[str, Any]:
        """Add to the count.

        It can go down too.
        """
        self.count += amount if how == "up" else -amount
        return {"count": self.count, "title": title}

    def reset(self) -> str:
        """Start again."""
        raise ToolFault("it cannot be undone")


def plain(words: list[str]) -> str:
    """Join words."""
    return " ".join(words)


def test_a_method_becomes_a_tool_with_its_schema() -> None:
    made = tool(Desk().add)
    assert made.name == "add"
    assert made.description == "Add to the count.\n\nIt can go down too."
    assert made.parameters["required"] == ["amount"]
    assert made.parameters["properties"]["title"] == {"default": "", "type": "string"}
    assert made.parameters["properties"]["how"]["enum"] == ["up", "down"]
    assert tool(plain).parameters["properties"]["words"]["items"] == {"type": "string"}


def test_tools_of_two_worlds_act_on_their_own() -> None:
    one, other = Desk(), Desk()
    box = ToolBox([tool(one.add), tool(one.reset)])
    assert box.call("add", '{"amount": 3}') == '{"count": 3, "title": ""}'
    assert tool(other.add).call({"amount": 1, "how": "down"}) == {"count": -1, "title": ""}
    assert (one.count, other.count) == (3, -1)


@pytest.mark.parametrize("arguments", ['{"amount": "3"}', "{}", '{"amount": 1, "more": 2}', "[]"])
def test_wrong_arguments_are_answered_and_change_nothing(arguments: str) -> None:
    desk = Desk()
    assert ToolBox([tool(desk.add)]).call("add", arguments).startswith("Error: add")
    assert desk.count == 0


def test_a_fault_is_text_for_the_model() -> None:
    assert ToolBox([tool(Desk().reset)]).call("reset", "") == "Error: it cannot be undone"
