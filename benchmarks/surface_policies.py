"""Scripted policies for the two surfaces, and the player that lets them act through a real session.

A policy knows its task's prompt and what came back, nothing else: it stands for a model that reads
well. What it writes goes through the harness token by token, as a model's responses would.
"""

import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from macaron.engines.base import Completion
from macaron.environments.base import Task
from macaron.environments.offers import END, TERMS
from macaron.environments.orders import Order, right_deed
from macaron.harness.calls import CLOSE, OPEN
from macaron.harness.session import Session
from macaron.harness.turn import Request, Turn

Script = Generator[str, list[str], None]
"""Yields responses; is sent the results of each one's calls."""
Policy = Callable[[Task], Script]


def play(session: Session, tokenizer: Any, task: Task, policy: Policy) -> Turn:
    """The turn that the policy makes of the task."""
    script = policy(task)
    state: Request | Turn = session.begin(task.messages, task.specialist)
    text = next(script)
    while isinstance(state, Request):
        ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
        known = len(state.prompt) + len(ids)
        state = session.advance(Completion(ids, [0.0] * len(ids), "stop"))
        if isinstance(state, Request):
            text = script.send(_results(tokenizer.decode(list(state.prompt[known:]))))
    return state


def _results(text: str) -> list[str]:
    """Tool results as the nano base's template writes them."""
    return re.findall(r"<\|tool\|>(.*?)<\|end\|>", text, re.DOTALL)


def call(name: str, **arguments: Any) -> str:
    """One tool call."""
    value: dict[str, Any] = {"name": name, "arguments": arguments}
    return f"{OPEN}{json.dumps(value if arguments else {'name': name})}{CLOSE}"


def cell(*lines: str) -> str:
    """One Python cell."""
    return "\n".join(["```python", *lines, "```"])


def orders_functions(task: Task) -> Script:
    """One call a round: look up, decide, act, for each order."""
    refunded = 0
    for number in _asked(task):
        (found,) = yield call("find", number=number)
        deed, code = _decided(task, found)
        yield call(deed, code=code)
        refunded += deed == "refund"
    yield str(refunded)


def orders_parallel(task: Task) -> Script:
    """All look-ups in one round, all deeds in the next."""
    results = yield "".join(call("find", number=number) for number in _asked(task))
    decided = [_decided(task, found) for found in results]
    yield "".join(call(deed, code=code) for deed, code in decided)
    yield str(sum(deed == "refund" for deed, _ in decided))


def orders_repl(task: Task) -> Script:
    """Look at one, write the loop, check, answer."""
    first, size, over = task.data["first"], task.data["size"], task.data["over"]
    yield cell(f"print(find({first}))")
    test = 'o["late"]' if over is None else f'o["amount"] > {over}'
    yield cell(
        "a, b = [], []",
        f"for i in range({first}, {first} + {size}):",
        "    o = find(i)",
        f"    if {test}:",
        '        refund(o["code"])',
        "        a.append(i)",
        "    else:",
        '        ship(o["code"])',
        "        b.append(i)",
    )
    (seen,) = yield cell("print(len(a + b), len(a))")
    yield seen.split()[1]


def _asked(task: Task) -> Iterable[int]:
    return range(task.data["first"], task.data["first"] + task.data["size"])


def _decided(task: Task, found: str) -> tuple[str, str]:
    row: Mapping[str, Any] = json.loads(found)
    return right_deed(task.data, Order(row["code"], row["late"], row["amount"])), row["code"]


def offers_functions(task: Task) -> Script:
    """Read, decide, and with the decision read the next."""
    (text,) = yield call("read_offer")
    accepted = 0
    while text != END:
        right = judged(task, text)
        accepted += right
        _, text = yield call("accept" if right else "decline") + call("read_offer")
    yield str(accepted)


def offers_careful(task: Task) -> Script:
    """The same through cells: no loop, an offer a cell."""
    (text,) = yield cell("print(read_offer())")
    accepted = 0
    while text != END:
        right = judged(task, text)
        accepted += right
        (text,) = yield cell("accept()" if right else "decline()", "print(read_offer())")
    yield str(accepted)


HINTS = {"back": ("return", "back"), "soon": ("day", "tomorrow"), "new": ("new", "fresh", "box")}
"""What comes to mind of a wish before any offer was read."""


def offers_repl(task: Task) -> Script:
    """What the surface invites: look at one, then a loop with a rule for all the others.

    The rule takes what names the wish without a negation, and what is worded like the offer seen.
    """
    (text,) = yield cell("t = read_offer()", "print(t)")
    right = judged(task, text)
    like = _telling(task, text)
    hints = ", ".join(f'"{word}"' for word in HINTS[task.data["wish"]])
    (seen,) = yield cell(
        "n = 0",
        f"while t != {json.dumps(END)}:",
        "    s = t.lower()",
        f"    yes = any(w in s for w in ({hints}))",
        '    no = any(w in s for w in ("not ", "no ", "never"))',
        f"    if {json.dumps(like)} in t:",
        f"        yes, no = {right}, {not right}",
        "    if yes and not no:",
        "        accept()",
        "        n += 1",
        "    else:",
        "        decline()",
        "    t = read_offer()",
        "print(n)",
    )
    yield seen


def judged(task: Task, text: str) -> bool:
    """Whether a reader would accept the offer: it knows what each wording means."""
    return _telling(task, text) in TERMS[task.data["wish"]][True]


def _telling(task: Task, text: str) -> str:
    """The part of an offer that decides."""
    terms: Sequence[str] = [*TERMS[task.data["wish"]][True], *TERMS[task.data["wish"]][False]]
    return next(words for words in terms if words in text)
