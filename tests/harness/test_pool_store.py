"""The pool on disk and the reading of a model's text: whatever comes, whoever dies."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macaron.errors import DigestError, StorageError
from macaron.files import read_jsonl
from macaron.harness.pool import log as log_module
from macaron.harness.pool.bench import candidate
from macaron.harness.pool.judge import promote
from macaron.harness.pool.live import LivePool
from macaron.harness.pool.source import MAX_SOURCE, MODULES, OPEN, normalise, shape
from macaron.harness.sandbox import Sandbox
from macaron.harness.tools import ToolFault
from macaron.pool.candidate import Candidate
from macaron.pool.state import State
from tests.harness.pools import INSIDE, LONGEST, TOTAL, Rules, examiner, live, session, tool

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def numbered(n: int) -> Candidate:
    return tool(f"def order_total(lines):\n    return {n}\n")


def test_a_name_is_its_content() -> None:
    """Pinned: a tool has this name on every machine and under every Python."""
    made = Candidate("f", "Does it.", {"type": "object"}, "def f():\n    return 1\n", ("find",))
    assert made.digest == "db4d696e14ee4518bc5e58909fda19259562f6ab8233fcd8ef1bf9bd426c3d18"


def test_an_event_that_was_cut_is_no_event(tmp_path: Path) -> None:
    pool = live(tmp_path)
    pool.save(numbered(1), session())
    path = pool.folder / "log.jsonl"
    one = path.read_bytes()
    pool.save(numbered(2), session())
    both = path.read_bytes()
    for end in range(len(one), len(both)):
        path.write_bytes(both[:end])
        again = live(tmp_path)
        assert len(again.state().entries) == 1
        again.save(numbered(3), session())
        assert [e["digest"] for e in read_jsonl(path)] == [
            numbered(1).digest,
            numbered(3).digest,
        ]
        assert set(live(tmp_path).state().entries) == set(again.state().entries)


def test_a_cut_event_that_is_longer_than_the_next_is_gone(tmp_path: Path) -> None:
    pool = live(tmp_path)
    pool.save(numbered(1), session())
    path = pool.folder / "log.jsonl"
    with path.open("a") as file:
        file.write('{"id": "' + "x" * 5000)
    live(tmp_path).save(numbered(2), session())
    assert [e["digest"] for e in read_jsonl(path)] == [numbered(1).digest, numbered(2).digest]


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\x0c", "\x1b", "\ue000", "\x7f"])
def test_a_person_sees_what_python_sees(hidden: str) -> None:
    with pytest.raises(ToolFault, match=r"the character U\+[0-9A-F]{4}, which can't be seen"):
        candidate(f"def f(x):\n    # {hidden}\n    return x\n")


def test_a_full_disk_is_one_line_and_leaves_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = live(tmp_path)
    pool.save(numbered(1), session())
    before = (pool.folder / "log.jsonl").read_bytes()

    def full(handle: int, data: bytes) -> int:
        real(handle, data[:5])
        raise OSError(28, "No space left on device")

    real = os.write
    monkeypatch.setattr(log_module.os, "write", full)
    with pytest.raises(StorageError, match="the disk is full"):
        pool.save(numbered(2), session())
    monkeypatch.undo()
    assert (pool.folder / "log.jsonl").read_bytes() == before
    assert len(pool.state().entries) == 1


def test_a_damaged_line_or_tool_is_one_line(tmp_path: Path, sandbox: Sandbox) -> None:
    pool = live(tmp_path)
    pool.save(tool(TOTAL), session())
    promote(pool, tool(TOTAL).digest, examiner(sandbox), Rules(), session())
    file = pool.folder / f"{tool(TOTAL).digest}.json"
    whole = file.read_text()
    for damaged in (whole.replace("price", "cost", 1), "{", "[]", "{}", whole.replace('"', "", 2)):
        file.write_text(damaged)
        with pytest.raises(DigestError) as found:
            pool.snapshot()
        assert "\n" not in str(found.value) and file.name in str(found.value)
    file.write_text(whole)
    assert pool.snapshot().tools
    path = pool.folder / "log.jsonl"
    path.write_text(path.read_text().replace('"event"', "'event'", 1))
    with pytest.raises(DigestError, match=r"log\.jsonl: damaged"):
        live(tmp_path).state()


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.harness.pools import live, session, tool
pool = live(Path(sys.argv[2]))
for n in range(int(sys.argv[4])):
    made = tool(f"def order_total(lines):\\n    return {n}, {sys.argv[3]!r}\\n")
    pool.save(made, session(sys.argv[3]))
    print(made.digest, flush=True)
"""


def writer(folder: Path, name: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(ROOT), str(folder), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_what_was_said_to_be_saved_survives_a_kill(tmp_path: Path) -> None:
    process = writer(tmp_path, "killed", 100_000)
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(30)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.read().split("\n")[:-1]
    process.wait()
    pool = live(tmp_path)
    entries = pool.state().entries
    assert len(said) >= 30 and set(said) <= set(entries)
    assert all(pool.tool(digest).digest == digest for digest in said)
    pool.save(tool(TOTAL), session())
    assert tool(TOTAL).digest in live(tmp_path).state().entries


def test_processes_and_threads_share_a_pool(tmp_path: Path, sandbox: Sandbox) -> None:
    others = [writer(tmp_path, name, 40) for name in ("a", "b")]
    pool, digest = live(tmp_path), tool(TOTAL).digest
    pool.save(tool(TOTAL), session())

    def attempt(n: int) -> str:
        mine = pool if n % 2 else live(tmp_path)
        mine.save(numbered(n), session(f"thread-{n}"))
        try:
            return str(promote(mine, digest, examiner(sandbox), Rules(), session(f"t{n}")).good)
        except ToolFault as fault:
            return fault.text

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(attempt, range(16)))
    assert [process.wait() for process in others] == [0, 0]
    assert sorted(answers) == ["True", *["order_total is promoted already"] * 15]
    state = live(tmp_path).state()
    assert len(state.entries) == 1 + 16 + 80
    assert [e["event"] for e in state.entries[digest].events] == ["saved", "tried"]
    assert state.entries.keys() == pool.state().entries.keys()


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["saved", "tried", "retried", "used", "demoted"]),
        st.integers(0, 3),
        st.booleans(),
        st.sampled_from(["p0", "p1"]),
    ),
    max_size=30,
)


def _event(n: int, kind: str, number: int, good: bool, pair: str) -> dict[str, Any]:
    event = {"id": str(n), "event": kind, "at": "", "pair": pair, "session": "s"}
    if kind == "used":
        use = {"calls": 2, "raised": 1 + good, "faults": {"KeyError": 1}}
        return event | {"tools": {str(number): use}}
    numbers = {"seed": n, "trials": 2, "needed": 2, "passed": 2 * good, "faults": {}}
    facts = {"reason": "r", "promoted": good, "task": "", "shape": ""}
    return event | numbers | facts | {"digest": str(number), "name": f"t{number % 2}"}


@given(EVENTS, st.integers(0, 30))
def test_a_state_is_the_same_however_its_events_arrive(drawn: list[Any], cut: int) -> None:
    events = [_event(n, *facts) for n, facts in enumerate(drawn)]
    for pairs in (None, ("p0",)):
        whole = State(pairs).apply(events)
        parts = State(pairs).apply(events[:cut]).apply(events[:cut]).apply(events[cut:])
        assert whole.entries == parts.entries and whole.tools == parts.tools
        for name, digest in whole.tools.items():
            assert whole.entries[digest].status == "promoted"
            assert whole.entries[digest].name == name
        called = {d for d, entry in whole.entries.items() if entry.status == "promoted"}
        assert called == set(whole.tools.values())
        demoted = {e["digest"] for e in events if e["event"] == "demoted"}
        assert demoted == set(whole.demoted())


@given(EVENTS)
def test_another_familys_promotion_is_never_callable(drawn: list[Any]) -> None:
    events = [_event(n, *facts) for n, facts in enumerate(drawn)]
    ours = {e["digest"] for e in events if e["event"] == "tried" and e["pair"] == "p0"}
    assert set(State(("p0",)).apply(events).tools.values()) <= ours


SOURCES = (TOTAL, LONGEST, INSIDE, "def f(x: list[int] | None = None) -> dict[str, int]: ...\n")
PIECES = st.sampled_from([
    "(", ")", "[", "{", ":", "\n", "    ", "*", "=", "@", "_", ".", "def g(): pass", "lambda",
    "yield", "await", "import os", "global x", "'", '"""', "\\", "\x00", "‮", "é", "f'{x}'",
    "class A: pass", "x.y = 1", "nonlocal x", "1e999", "9" * 5000, "case", "type X = int",
])  # fmt: skip


def reads(source: str) -> Candidate | None:
    """The candidate; None where it was refused. Anything else is a fault of ours."""
    try:
        made = candidate(source)
    except ToolFault as fault:
        assert fault.text and len(fault.text) <= 500
        return None
    json.dumps(made.to_json()).encode()
    assert shape(made.source) and made.digest
    return made


@given(st.sampled_from(SOURCES), st.lists(st.tuples(st.integers(0, 120), PIECES), max_size=4))
@settings(max_examples=300)
def test_any_text_is_a_candidate_or_a_fault_that_can_be_read(
    source: str, changes: list[tuple[int, str]]
) -> None:
    for place, piece in changes:
        source = source[:place] + piece + source[place:]
    reads(source)


@given(st.text())
def test_any_unicode_is_read(text: str) -> None:
    reads(text)
    reads(f"def f(x):\n    return {text!r}\n")
    assert normalise(normalise(text)) == normalise(text)


NESTED = {
    "parentheses": "(" * 3000 + "1" + ")" * 3000,
    "signs": "-" * 7000 + "1",
    "attributes": "x" + ".a" * 3500,
    "calls": "x" + "()" * 3500,
    "indices": "x" + "[0]" * 2000,
    "lambdas": "lambda:" * 1000 + "1",
    "conditions": "1 if x else " * 600 + "1",
    "sums": "1+" * 3500 + "1",
    "comparisons": "1<" * 3500 + "1",
    "digits": "9" * 7000,
}


@pytest.mark.parametrize("kind", NESTED)
def test_deep_sources_end_no_process(kind: str) -> None:
    """In a process of its own: a parser that overflows its stack takes the test along."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.harness.test_pool_store import NESTED, reads\n"
        f"reads('def f(x):\\n    return ' + NESTED[{kind!r}] + '\\n')\n"
        f"deep = ''.join('    ' * n + 'if x:\\n' for n in range(1, 60)) + '    ' * 60 + 'pass\\n'\n"
        "reads('def f(x):\\n' + deep)\n"
        f"reads('def f(x: ' + 'int | ' * 1500 + 'int):\\n    pass\\n')\nprint('read')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "read\n"), ran.stderr[-500:]


def test_a_source_of_any_length_is_refused_before_it_is_parsed() -> None:
    assert reads("def f(x):\n    return 1" + " + 1" * MAX_SOURCE) is None


def test_nothing_is_written_to_the_operators_screen(capfd: pytest.CaptureFixture[str]) -> None:
    assert reads("def f(x):\n    return '\\d' is x\n")
    assert capfd.readouterr() == ("", "")


def test_a_tool_can_import_what_the_sandbox_has(sandbox: Sandbox) -> None:
    from macaron.harness.sandbox import Job

    code = "\n".join(f"import {name}" for name in MODULES)
    assert sandbox.run([Job(f"{code}\nprint('all')")])[0].outputs == ("all\n",)
    assert {"sum", "sorted", "ValueError", "isinstance"} <= OPEN


@pytest.mark.parametrize(
    "annotation",
    ["Any", "list[Any]", "np.ndarray", "dict[int, str]", "'int'", "tuple[int]", "print(1)", "1"],
)
def test_annotations_that_say_nothing_to_a_schema_are_refused(annotation: str) -> None:
    with pytest.raises(ToolFault, match="annotation"):
        candidate(f"def f(x: {annotation}):\n    return x\n")


def test_a_pool_needs_no_folder_until_it_is_written(tmp_path: Path) -> None:
    pool = LivePool(tmp_path / "none", None, ["p0"])
    assert pool.snapshot().tools == {} and pool.state().entries == {}
    assert not (tmp_path / "none").exists()
