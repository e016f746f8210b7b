"""Tools that would pass without doing the work: none does, even where the host's checks are blind.

Each is tried as if the checks of its source had let it through, so that what stops it is the trial
itself; whether the checks stop it as well is said beside it.
"""

import json
import random
from collections.abc import Iterator

import pytest

from macaron.harness.pool.bench import Workbench
from macaron.harness.pool.references import guesses
from macaron.harness.pool.trials import BATCH
from macaron.harness.sandbox import Sandbox
from macaron.harness.tools import ToolBox, ToolFault
from macaron.pool.candidate import Candidate
from tests.harness.pools import (
    PURPOSES,
    REFERENCES,
    TOTAL,
    Rules,
    examiner,
    live,
    session,
    tool,
)  # fmt: skip

RIGHT = "sum(a * b for a, b in lines)"
FORGED = '{"outcome": "ok", "outputs": [0, 0, 0, 0, 0, 0, 0, 0], "error": ""}'

# Name -> (does the source itself get a candidate refused?, body of order_total(lines)).
BODIES = {
    "constant": (False, "return 0"),
    "nothing": (False, "pass"),
    "echo": (False, "return lines"),
    "count": (False, "return len(lines)"),
    "true": (False, "return True"),
    "nan": (False, "return float('nan')"),
    "infinity": (False, "return float('inf')"),
    "as text": (False, f"return str({RIGHT})"),
    "as float": (False, f"return float({RIGHT})"),
    "in a list": (False, f"return [{RIGHT}]"),
    "off by one": (False, f"return {RIGHT} + 1"),
    "first line only": (False, "return lines[0][0] * lines[0][1]"),
    "right for short orders": (False, f"return {RIGHT} if len(lines) < 4 else 0"),
    "printed, not returned": (False, f"print({RIGHT})"),
    "generator": (False, f"yield {RIGHT}"),
    "equal to everything": (
        False,
        "class Any:\n        def __eq__(self, other): return True\n    return Any()",
    ),
    "a number equal to everything": (
        False,
        "class Any(int):\n        def __eq__(self, other): return True\n    return Any(1)",
    ),
    "a text equal to everything": (
        True,
        "class Any(str):\n        def __eq__(self, other): return True\n        "
        "__hash__ = str.__hash__\n    return Any('1')",
    ),
    "a list that grows when read": (
        False,
        "class Any(list):\n        def __len__(self): return 1\n    return Any([1])",
    ),
    "the arguments as an error": (False, "raise ValueError(lines)"),
    "the right value as an error": (False, f"raise ValueError({RIGHT})"),
    "ends its process": (False, "raise SystemExit(0)"),
    "keyboard interrupt": (False, "raise KeyboardInterrupt"),
    "recursion": (False, "return order_total(lines)"),
    "loops": (False, "while True: pass"),
    "fills memory": (False, "return len([0] * 10 ** 10)"),
    "floods": (False, "print('x' * 10 ** 7)"),
    "a result without end": (False, "return 'x' * 10 ** 7"),
    "a result too deep": (
        False,
        "deep = 0\n    for _ in range(500): deep = [deep]\n    return deep",
    ),
    "patches json": (True, "import json\n    json.dumps = lambda x: '{}'\n    return 0"),
    "forges the result": (
        True,
        f"import os\n    os.write(0, b'{FORGED}')\n    os._exit(0)",
    ),
    "forges the result by object walk": (
        True,
        "base = ().__class__.__base__.__subclasses__()\n    "
        "wrap = next(c for c in base if c.__name__ == '_wrap_close')\n    "
        f"wrap.__init__.__globals__['write'](0, b'{FORGED}')\n    "
        "wrap.__init__.__globals__['_exit'](0)",
    ),
    "reads the host's data": (True, "return DATA"),
    "reads what called it": (
        True,
        "try: raise ValueError\n    except ValueError as e: "
        "return e.__traceback__.tb_frame.f_back.f_locals['expected']",
    ),
    "reads globals": (True, "return globals()['expected']"),
    "reads the sandbox's job": (True, "import sys\n    return sys.modules['__main__'].job"),
    "opens a file": (True, "return open('/proc/self/environ').read()"),
    "evaluates": (True, f"return eval('{RIGHT} + 1')"),
    "imports by name": (True, "return __import__('os').getpid()"),
    "unpickles": (True, "import pickle\n    return pickle.loads(b'I0\\n.')"),
    "a session's variable": (True, "return cached_total"),
    "a session's function": (True, "return total_of(lines)"),
    "a global of its own": (True, f"global seen\n    seen = {RIGHT}\n    return seen + 1"),
    "the clock": (True, "import time\n    return int(time.time())"),
}

# Whole sources that are no plain function, or depend on earlier calls.
SOURCES = {
    "remembers in a default": (
        True,
        f"def order_total(lines, seen=[]):\n    seen.append(1)\n"
        f"    return {RIGHT} if len(seen) < 5 else 0\n",
    ),
    "remembers in itself": (
        True,
        f"def order_total(lines):\n    order_total.n = getattr(order_total, 'n', 0) + 1\n"
        f"    return {RIGHT} if order_total.n < 5 else 0\n",
    ),
    "remembers in a module": (
        True,
        f"def order_total(lines):\n    import math\n    math.n = vars(math).get('n', 0) + 1\n"
        f"    return {RIGHT} if math.n < 5 else 0\n",
    ),
    "answers by the order of calls": (
        True,
        "def order_total(lines, n=iter(range(99))):\n    return next(n)\n",
    ),
    "another argument": (True, f"def order_total(lines, extra=None):\n    return {RIGHT} * 2\n"),
    "no argument": (True, "def order_total():\n    return 0\n"),
    "any argument": (True, "def order_total(**given):\n    return len(given)\n"),
    "a lambda": (True, "order_total = lambda lines: 0\n"),
    "two functions": (True, "def helper(x): return x\ndef order_total(lines): return helper(0)\n"),
    "a decorator that works": (True, "@print\ndef order_total(lines): return 0\n"),
    "an annotation that works": (True, "def order_total(lines: print(1)): return 0\n"),
    "a default that works": (True, "def order_total(lines=print(1)): return 0\n"),
    "asynchronous": (True, f"async def order_total(lines): return {RIGHT}\n"),
    "a class": (True, "class order_total:\n    def __init__(self, lines): pass\n"),
}
CHEATS = {
    **{
        name: (refused, f"def order_total(lines):\n    {body}\n")
        for name, (refused, body) in BODIES.items()
    },
    **SOURCES,
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def blind(source: str) -> Candidate:
    """The candidate, whatever the host's checks say of it."""
    purpose = PURPOSES["order_total"]
    return Candidate(purpose.name, purpose.description, purpose.parameters, source)


@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_passes_its_trials(sandbox: Sandbox, name: str) -> None:
    report = examiner(sandbox).examine(blind(CHEATS[name][1]), 2, 2, "test")
    assert not report.good, report
    assert sum(report.faults.values()) == 1, "it stops where it can no longer pass"
    honest = examiner(sandbox).examine(tool(TOTAL), 2, 2, "test")
    assert honest.good, "the sandbox goes on"


def test_the_cheats_are_many_and_the_checks_refuse_those_they_should() -> None:
    assert len(CHEATS) >= 50
    refused = {}
    for name, (_, source) in CHEATS.items():
        try:
            tool(source)
        except ToolFault:
            refused[name] = True
    assert refused == {name: True for name, (refused, _) in CHEATS.items() if refused}


def test_what_was_learned_by_heart_is_of_no_use(sandbox: Sandbox) -> None:
    """The references of an attempt hang on the source: no source can hold its own."""
    examining = examiner(sandbox)
    known: dict[str, int] = {}
    for attempt in range(6):
        table = json.dumps(known)
        by_heart = (
            f"def order_total(lines):\n    import json\n    known = json.loads({table!r})\n"
            "    return known.get(json.dumps(lines), 0)\n"
        )
        made = tool(by_heart)
        report = examining.examine(made, 3, 3, "promotion", attempt)
        assert report.passed == 0
        for trial in range(3):
            for reference in examining._draw(made, report.seed, trial):
                known[json.dumps(reference.arguments["lines"])] = reference.expected
    assert len(known) > 100


def test_a_guess_at_a_yes_or_no_fails(sandbox: Sandbox) -> None:
    for body in ("True", "False", "x > low", "x >= low", "low < x <= high", "low <= x"):
        made = tool(f"def inside(x, low, high):\n    return {body}\n")
        assert not examiner(sandbox).examine(made, 5, 5, "test").good, body


@pytest.mark.parametrize("name", PURPOSES)
def test_no_reference_can_be_guessed(name: str) -> None:
    """A guess that were right too often would pass a promotion by luck."""
    drawn = REFERENCES.references(name, random.Random(1), 400)
    share = max(guesses(drawn).values())
    assert share ** (3 * BATCH) < 1e-3, guesses(drawn)


def test_nothing_of_the_references_comes_back(
    sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What the model reads of a trial is the same, whatever its tool tries to say."""
    texts = set()
    for body in ("raise ValueError(lines)", "print(lines)", "return lines", "return 0"):
        pool = live(tmp_path_factory.mktemp("pool"))
        bench = Workbench(pool, examiner(sandbox), Rules(), session())
        box = ToolBox(bench.tools())
        source = f"def order_total(lines):\n    {body}\n"
        box.call("save_tool", json.dumps({"source": source}))
        texts.add(box.call("promote_tool", '{"name": "order_total"}'))
        kept = (pool.folder / "log.jsonl").read_text()
        assert "[[" not in kept and "lines" not in kept
    assert len(texts) == 1 and "0 of 3 trials" in texts.pop()
