"""The REPL surface on a real sandboxed namespace."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from macaron.harness.namespace import Cell, Namespace
from macaron.harness.repl import LOST, NOT_RUN, NOTHING, Repl, signature
from macaron.harness.session import Session
from macaron.harness.space import Space
from macaron.harness.tools import Tool
from macaron.harness.turn import Turn
from tests.harness.play import ADD, completion, environment, harness, play, user


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


@pytest.fixture
def one(chatml: Any) -> Iterator[Session]:
    session = repl(chatml)
    yield session
    session.close()


def repl(tokenizer: Any, document: dict[str, Any] | None = None, **changes: Any) -> Session:
    hcp = harness(document, surface="repl", **changes)
    return Session(tokenizer, hcp, {"environment": environment()})


def printed(turn: Turn) -> list[str]:
    return [m["content"] for m in turn.messages if m["role"] == "tool"]


def test_values_stay_in_variables_over_rounds_and_turns(chatml: Any, one: Session) -> None:
    turn, requests = play(
        one, chatml, [user("Add")], [f"I add.\n{cell('x = add(a=2, b=3)')}", cell("print(x)"), "5"]
    )
    assert (turn.stop_reason, turn.answer, turn.rounds, turn.calls) == ("answer", "5", 3, 1)
    assert printed(turn) == [NOTHING, "5"]
    assert turn.messages[1]["content"] == "I add."
    assert "Functions:\nadd(a: int, b: int)  # Adds.\nfind(id: str)  # Finds." in chatml.decode(
        requests[0].prompt
    )
    one.deliver()
    turn, _ = play(one, chatml, [user("And?")], [cell("x + 1"), "6"])
    assert printed(turn) == ["6"]


def test_an_undone_turn_leaves_the_namespace_as_it_was(chatml: Any, one: Session) -> None:
    play(one, chatml, [user("Go")], [cell("x = [1]"), "So."])
    one.deliver()
    play(one, chatml, [user("Go")], [cell("x.append(2); y = 1"), "So."])
    one.undo()
    turn, _ = play(one, chatml, [user("Go")], [cell("print(x, 'y' in globals())"), "So."])
    assert printed(turn) == ["[1] False"]


def test_a_failed_turn_leaves_the_namespace_as_it_was(chatml: Any, one: Session) -> None:
    play(one, chatml, [user("Go")], [cell("x = 1"), "So."])
    one.deliver()
    turn, _ = play(one, chatml, [user("Go")], [cell("x = 2\nfind(id='broken')")])
    assert (turn.stop_reason, turn.error) == ("tool", "find: KeyError: 'a bug'")
    turn, _ = play(one, chatml, [user("Go")], [cell("x"), "So."])
    assert printed(turn) == ["1"]


def test_faults_are_exceptions_there_and_errors_are_read(chatml: Any, one: Session) -> None:
    caught = "try:\n    find(id='y')\nexcept Exception as e:\n    print('caught:', e)"
    turn, _ = play(
        one,
        chatml,
        [user("Go")],
        [
            cell(caught),
            cell("find(id='y')"),
            cell("add(a='1', b=2)"),
            cell("1/0"),
            cell("("),
            "So.",
        ],
    )
    first, second, third, fourth, fifth = printed(turn)
    assert first == "caught: there is no y"
    assert "there is no y" in second and "not of type 'integer'" in third
    assert "ZeroDivisionError" in fourth and "SyntaxError" in fifth
    assert turn.faults == {"failed": 2, "malformed": 1}


def test_printed_text_is_cut_with_a_notice(chatml: Any) -> None:
    one = repl(chatml, result_chars=100)
    long = cell("print('a' * 5000)")
    turn, _ = play(one, chatml, [user("Go")], [long, f"{long}\n{long}", "So."])
    single, *two = printed(turn)
    assert single.startswith("a" * 100) and single.count("a" * 10) == 10 and "cut" in single
    assert sum(text.count("a" * 10) for text in two) == 10, "the round's budget is shared"
    assert all("cut" in text for text in two)
    one.close()


def test_cells_after_one_that_failed_are_not_run(chatml: Any, one: Session) -> None:
    response = "\n".join([cell("x = 1"), cell("1/0"), cell("x = 2")])
    turn, _ = play(one, chatml, [user("Go")], [response, cell("x"), "So."])
    nothing, failed, unrun, value = printed(turn)
    assert nothing == NOTHING and "ZeroDivisionError" in failed
    assert unrun == NOT_RUN and value == "1"


def test_a_cell_that_takes_too_long_is_the_models_to_read(chatml: Any) -> None:
    one = repl(chatml, {"workspace": {"cpu_s": 1}})
    turn, _ = play(one, chatml, [user("Go")], [cell("x = 1"), cell("while True: pass"), "So."])
    assert turn.stop_reason == "answer"
    assert printed(turn)[1] == "it took too long; all that it did was undone"
    one.close()


def test_hooks_stand_around_a_cells_calls(chatml: Any) -> None:
    hooks = [
        {"name": "no", "when": "before_tool", "tools": ["add"], "pattern": "9", "action": "refuse",
         "text": "no nines"},
        {"name": "n", "when": "after_tool", "tools": ["find"], "pattern": "", "action": "note",
         "text": "Close it."},
        {"name": "r", "when": "after_tool", "tools": ["find"], "pattern": "true",
         "action": "replace", "text": "false"},
    ]  # fmt: skip
    one = repl(chatml, {"hooks": hooks})
    turn, _ = play(
        one, chatml, [user("Go")], [cell("print(find('x')['open'])"), cell("add(9, 1)"), "So."]
    )
    assert printed(turn)[0] == "False\nClose it."
    assert "no nines" in printed(turn)[1]
    assert [f.hook for f in turn.firings] == ["n", "r", "no"]
    one.close()


def test_a_shell_works_on_the_namespaces_files(chatml: Any) -> None:
    shell = {
        "shell": {
            "description": "Runs a command.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            },
            "source": "builtin",
        }
    }
    one = repl(chatml, {"tools": shell}, tools=["shell"])
    write = "open('a.txt', 'w').write('hello')\nprint(shell('cat a.txt'))"
    turn, _ = play(one, chatml, [user("Go")], [cell(write), cell("shell('false')"), "So."])
    if "no shell" in printed(turn)[0]:
        pytest.skip("this host allows no shell in the sandbox")
    assert printed(turn)[0] == "hello"
    assert turn.faults == {"failed": 1}
    one.undo()
    turn, _ = play(one, chatml, [user("Go")], [cell("import os; os.listdir('.')"), "So."])
    assert printed(turn)[0] == "[]"
    one.close()


class Lost(Namespace):
    """A namespace whose process can be lost."""

    def lose(self) -> None:
        assert self._link is not None
        os.kill(self._link._pid, signal.SIGKILL)

    def run(self, code: str, tools: Any = None, *, chars: int | None = None) -> Cell:
        if "lose" in code:
            self.lose()
        return super().run(code, tools, chars=chars)


def test_a_sandbox_that_is_lost_ends_the_turn_and_is_told(chatml: Any) -> None:
    hcp = harness(surface="repl")
    one = Session(chatml, hcp, {"environment": environment()}, namespaces=lambda seed: Lost())
    play(one, chatml, [user("Go")], [cell("x = 1"), "So."])
    one.deliver()
    turn, _ = play(one, chatml, [user("Go")], [cell("lose = 1")])
    assert turn.stop_reason == "sandbox" and turn.failed and turn.error
    turn, _ = play(one, chatml, [user("Go")], [cell("'x' in globals()"), cell("1"), "So."])
    assert printed(turn) == [f"{LOST}\nFalse", "1"]
    one.close()


def test_text_without_a_python_block_is_the_answer(chatml: Any, one: Session) -> None:
    text = "Write:\n```json\n{}\n```\nor `python`."
    turn, _ = play(one, chatml, [user("Go")], [text])
    assert (turn.answer, turn.rounds) == (text, 1)


def test_a_block_that_is_not_closed_is_a_cell() -> None:
    surface = Repl(100, Space(Namespace))
    (made,) = surface.read("So:\n```python\nprint(1)").calls
    assert made.arguments == '{"code": "print(1)"}'


def test_tools_are_shown_as_heads_of_functions() -> None:
    schema = {
        "type": "object",
        "properties": {"late": {"type": ["array", "null"]}, "first": {}, "n": {"type": "number"}},
        "required": ["first"],
    }
    tool = Tool("get-all", "Gets\n  all.", schema, lambda arguments: 0)
    expected = "get_all(first: object, late: list | None = ..., n: float = ...)  # Gets all."
    assert signature(tool) == expected
    assert signature(Tool("add", "", ADD, lambda arguments: 0)) == "add(a: int, b: int)"


def test_the_same_seed_draws_the_same(chatml: Any) -> None:
    def drawn(seed: int) -> str:
        session = Session(chatml, harness(surface="repl", tools=[]), seed=seed)
        code = cell("import random; random.random()")
        turn, _ = play(session, chatml, [user("Go")], [code, "So."])
        session.close()
        return printed(turn)[0]

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_session_without_cells_opens_no_namespace(chatml: Any) -> None:
    def never(seed: int) -> Namespace:
        raise AssertionError("opened")

    session = Session(
        chatml, harness(surface="repl"), {"environment": environment()}, namespaces=never
    )
    turn, _ = play(session, chatml, [user("Go")], ["Hello"])
    session.deliver()
    session.close()
    assert turn.answer == "Hello"
    assert completion(chatml, "x").stop_reason == "stop"
