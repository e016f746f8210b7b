"""A session's namespace: what persists, what comes back, what is undone, what is limited."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from macaron.errors import ConfigError
from macaron.harness import namespace_server
from macaron.harness.namespace import Cell, Namespace, NamespaceLimits
from macaron.harness.namespace_pool import NamespacePool
from macaron.harness.namespace_server import NamespaceServer
from macaron.harness.sandbox import SandboxError
from tests.harness.processes import alive, descendants

ROOT = Path(__file__).resolve().parents[2]
# A limit is small only where it is meant to be met: machines are busy.
AMPLE = NamespaceLimits(cpu_s=30, wall_s=60.0)
LOCKED = ("namespaces", "private-root")


class Fault(Exception):  # noqa: N818
    """What a tool raises for the model to read."""

    text = "no such order"


class Lookup:
    """A tool as the harness makes them: with a schema, whose order gives positions."""

    parameters: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"order": {}, "part": {}},
    }

    @staticmethod
    def call(arguments: dict[str, Any]) -> Any:
        return sorted(arguments.items())


def refuse(arguments: dict[str, Any]) -> Any:
    raise Fault


@pytest.fixture(scope="module")
def server() -> Iterator[NamespaceServer]:
    made = NamespaceServer()
    yield made
    made.close()


@pytest.fixture
def session(server: NamespaceServer) -> Iterator[Namespace]:
    with Namespace(AMPLE, server=server) as made:
        yield made


def printed(session: Namespace, code: str, **options: Any) -> str:
    cell = session.run(code, **options)
    assert cell.outcome == "ok", cell
    return cell.printed


def test_names_last_and_a_last_expression_is_printed(session: Namespace) -> None:
    assert printed(session, "import math\ndef twice(x): return 2 * x\nx = 21") == ""
    assert printed(session, "print('it is', end=' ')\ntwice(x)") == "it is 42\n"
    assert printed(session, "None") == ""
    assert printed(session, "[math.comb(4, 2), 'text']") == "[6, 'text']\n"
    assert printed(session, "") == ""


def test_any_object_lasts_also_one_that_cannot_be_pickled(session: Namespace) -> None:
    printed(session, "g = (i * i for i in range(9))\nnext(g), next(g)\nf = lambda: next(g)")
    assert [printed(session, "f()") for _ in range(3)] == ["4\n", "9\n", "16\n"]


def test_a_fault_shows_the_cells_own_lines_and_no_path(session: Namespace) -> None:
    printed(session, "def outer(x):\n    return inner(x)\ndef inner(x):\n    return 1 / x")
    cell = session.run("x = 7\nouter(0)")
    assert (cell.outcome, cell.error) == (
        "error",
        "  cell 2, line 2: outer(0)\n"
        "  cell 1, line 2, in outer: return inner(x)\n"
        "  cell 1, line 4, in inner: return 1 / x\n"
        "ZeroDivisionError: division by zero",
    )
    # As in any REPL, what ran before the fault has happened.
    assert printed(session, "x") == "7\n"
    assert session.run("import json\njson.loads('{')").error.startswith("  cell 4, line 2: json")
    for code in ("json.loads('{')", "import nothing", "open('/no')", "x = (1,"):
        error = session.run(code).error
        assert "/macaron" not in error and ".py" not in error


def test_a_syntax_error_names_its_line(session: Namespace) -> None:
    error = session.run("x = 1\nif x\n  pass").error
    assert error.startswith("  cell 1, line 2: if x\nSyntaxError: ")


def test_long_tracebacks_are_short(session: Namespace) -> None:
    error = session.run("def f(): return f()\nf()").error
    assert len(error.splitlines()) < 12 and "more" in error and "RecursionError" in error
    assert len(session.run("raise ValueError('x' * 10**6)").error) <= 2000


def test_what_is_printed_is_cut_to_the_budget_with_a_notice(session: Namespace) -> None:
    cell = session.run("print('x' * 50)\n'y' * 50", chars=60)
    assert cell.cut
    assert cell.printed == "x" * 50 + "\n'" + "y" * 8 + "\n[44 more characters were cut]"
    whole = session.run("print('x' * 50)", chars=60)
    assert (whole.cut, whole.printed) == (False, "x" * 50 + "\n")
    assert len(session.run("'x' * 10**5").printed) < AMPLE.output_chars + 60


def test_standard_modules_can_be_imported(session: Namespace) -> None:
    code = (
        "import json, re, math, statistics, datetime, collections, itertools, random, csv\n"
        "import decimal, fractions, functools, textwrap, uuid, hashlib\n"
        "import sqlite3, xml.etree.ElementTree\n"
        "statistics.mean([1, 2, 6])"
    )
    assert printed(session, code) == "3\n"


def test_tools_run_on_the_host(session: Namespace) -> None:
    seen: list[Any] = []

    def record(arguments: dict[str, Any]) -> Any:
        seen.append((os.getpid(), arguments))
        return {"items": [1, 2.5, None, True, "ü"]}

    tools = {"record": record, "lookup": Lookup, "refuse": refuse}
    code = "found = record(a=[1, {'b': 'ü'}])\nprint(found['items'])"
    assert printed(session, code, tools=tools) == "[1, 2.5, None, True, 'ü']\n"
    assert seen == [(os.getpid(), {"a": [1, {"b": "ü"}]})]
    assert printed(session, "lookup(7, part='x')", tools=tools) == "[['order', 7], ['part', 'x']]\n"
    assert printed(session, "found['items'][0]", tools=tools) == "1\n"


def test_a_tools_fault_is_an_exception_of_the_cell(session: Namespace) -> None:
    tools = {"refuse": refuse, "lookup": Lookup}
    code = "try:\n    refuse()\nexcept ToolError as fault:\n    print('said', fault)"
    assert printed(session, code, tools=tools) == "said no such order\n"
    cell = session.run("refuse(x=1)", tools)
    assert (cell.outcome, cell.error) == (
        "error",
        "  cell 2, line 1: refuse(x=1)\nToolError: no such order",
    )
    for code in ("lookup(1, 2, 3)", "lookup(1, order=2)", "refuse({1})", "refuse(5)"):
        assert "ToolError" in session.run(code, tools).error, code
    assert "ToolError" in session.run("lookup('x' * 2_000_000)", tools).error


def test_an_answer_that_is_too_long_is_a_fault(session: Namespace) -> None:
    error = session.run("long()", {"long": lambda _: "x" * 2_000_000}).error
    assert "2000013 bytes" in error


def test_a_tool_that_breaks_undoes_the_cell_and_is_raised(session: Namespace) -> None:
    printed(session, "x = 1")
    with pytest.raises(ZeroDivisionError):
        session.run("x = 2\nbroken()", {"broken": lambda _: 1 // 0})
    assert printed(session, "x") == "1\n"


def test_tools_come_and_go_and_a_name_of_the_sessions_own_stays(session: Namespace) -> None:
    tools = {"one": lambda _: 1}
    assert printed(session, "one()", tools=tools) == "1\n"
    assert "NameError" in session.run("one()").error
    assert printed(session, "one = lambda: 'mine'\none()", tools=tools) == "'mine'\n"
    assert printed(session, "one()", tools=tools) == "'mine'\n"
    assert printed(session, "one()") == "'mine'\n"


def test_the_time_that_tools_take_is_not_the_cells(server: NamespaceServer) -> None:
    with Namespace(NamespaceLimits(wall_s=1.0), server=server) as session:
        session.run("0")
        assert printed(session, "slow()", tools={"slow": lambda _: time.sleep(1.5)}) == ""


def test_calls_in_a_cell_have_an_end(server: NamespaceServer) -> None:
    limits = NamespaceLimits(cpu_s=30, wall_s=60.0, calls=3)
    code = "print(one(), one(), one())\none()"
    with Namespace(limits, server=server) as session:
        cell = session.run(code, {"one": lambda _: 1})
        assert (cell.printed, cell.error.splitlines()[-1]) == (
            "1 1 1\n", "ToolError: a cell may make 3 calls, and no more",
        )  # fmt: skip


def test_restore_brings_back_variables_and_files(session: Namespace) -> None:
    printed(session, "x = [1]\nx.append(x)\nopen('a', 'w').write('one')\ng = iter([1, 2, 3])")
    session.snapshot()
    for _ in range(2):
        assert printed(session, "next(g)") == "1\n"
        printed(session, "x[0] = 2\nopen('a', 'w').write('two')\nopen('b', 'w').write('new')")
        printed(session, "import os, shutil\nos.makedirs('d/e')\nshutil.copy('a', 'd/e/c')\ny = 3")
        session.restore()
        assert printed(session, "print(x[0], x[1] is x, open('a').read())") == "1 True one\n"
        assert printed(session, "import os\nsorted(os.listdir('.'))") == "['a']\n"
        assert "NameError" in session.run("y").error
        session.restore()


def test_commit_keeps_what_happened(session: Namespace) -> None:
    printed(session, "x = 1")
    session.snapshot()
    printed(session, "x = 2\nopen('a', 'w').write('kept')")
    session.commit()
    assert printed(session, "print(x, open('a').read())") == "2 kept\n"
    with pytest.raises(SandboxError, match="no snapshot"):
        session.restore()
    assert printed(session, "x") == "2\n"


def test_the_last_snapshot_counts(session: Namespace) -> None:
    for i in range(3):
        printed(session, f"x = {i}")
        session.snapshot()
    printed(session, "x = 9")
    session.restore()
    assert printed(session, "x") == "2\n"


def test_files_of_every_shape_are_restored(session: Namespace) -> None:
    printed(
        session,
        "import os\nos.mkdir('f')\nopen('d', 'w').write('file')\nopen('f/x', 'w').write('x')",
    )
    printed(session, "h = open('h', 'w+')\nprint('before', file=h, flush=True)")
    session.snapshot()
    code = (
        "import shutil\nshutil.rmtree('f')\nopen('f', 'w').write('a file now')\nos.remove('d')\n"
        "os.makedirs('d/' + '/'.join('deep' * 10))\nos.rename('h', 'moved')\nh.write('after')"
    )
    printed(session, code)
    session.restore()
    code = "print(sorted(os.listdir()), open('d').read(), open('f/x').read(), open('h').read())"
    assert printed(session, code) == "['d', 'f', 'h'] file x before\n\n"


def test_a_file_changed_within_one_tick_of_the_clock_is_restored(session: Namespace) -> None:
    for i in range(20):
        printed(session, f"open('a', 'w').write('{i:04}')")
        session.snapshot()
        printed(session, "open('a', 'w').write('next')")
        session.restore()
        assert printed(session, "open('a').read()") == f"'{i:04}'\n"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("while True: pass", "timeout"),
        ("import time\ntime.sleep(60)", "timeout"),
        ("y = [0] * 10**10", "memory"),
        ("while True: print('x' * 10**5)", "output"),
        ("import os\nos._exit(1)", "killed"),
    ],
)
def test_a_cell_that_is_ended_leaves_all_as_it_was(
    server: NamespaceServer, code: str, outcome: str
) -> None:
    with Namespace(NamespaceLimits(cpu_s=1, wall_s=4.0), server=server) as session:
        session.run("x = 1\nopen('a', 'w').write('one')")
        cell = session.run(f"x = 2\nopen('a', 'w').write('two')\n{code}")
        assert cell.outcome == outcome, cell
        assert printed(session, "print(x, open('a').read())") == "1 one\n"


def test_a_session_whose_loop_is_broken_goes_back_to_its_snapshot(session: Namespace) -> None:
    broken = "import sys\nsys.modules['runner']._clone = None"
    printed(session, "x = 1")
    session.snapshot()
    printed(session, broken)
    assert "broke the interpreter" in session.run("1").error
    assert printed(session, "x") == "1\n"
    session.commit()
    printed(session, broken)
    assert session.run("1").outcome == "killed"
    assert "NameError" in session.run("x").error, "without a snapshot it begins anew"


def test_a_session_whose_keeper_dies_is_invalid_and_begins_anew(session: Namespace) -> None:
    printed(session, "x = 1")
    session.snapshot()
    assert session._link is not None
    os.kill(session._link._pid, signal.SIGKILL)
    cell = session.run("x")
    assert (cell.outcome, "session was lost" in cell.error) == ("invalid", True)
    assert "NameError" in session.run("x").error
    with pytest.raises(SandboxError, match="no snapshot"):
        session.restore()
    assert printed(session, "1") == "1\n"


def test_a_server_that_dies_is_replaced() -> None:
    server = NamespaceServer()
    with Namespace(AMPLE, server=server) as session:
        printed(session, "x = 1")
        first = server.pid
        os.kill(first, signal.SIGKILL)
        assert session.run("x").outcome == "invalid"
        assert printed(session, "1 + 1") == "2\n"
        assert server.pid != first
    server.close()


def test_sessions_see_nothing_of_each_other(server: NamespaceServer) -> None:
    with Namespace(AMPLE, server=server) as one, Namespace(AMPLE, server=server) as two:
        printed(one, "x = 'mine'\nopen('a', 'w').write('mine')\nimport json\njson.mark = 1")
        assert "NameError" in two.run("x").error
        assert (
            printed(two, "import os, json\nprint(os.listdir('.'), hasattr(json, 'mark'))")
            == "[] False\n"
        )


def test_the_same_seed_draws_the_same_and_restoring_too(server: NamespaceServer) -> None:
    code = "import random\nprint(random.random(), {'a', 'b', 'c'}, random.sample(range(99), 3))"

    def draws(seed: int) -> list[str]:
        with Namespace(AMPLE, seed=seed, server=server) as session:
            first = printed(session, code)
            session.snapshot()
            second = printed(session, code)
            session.restore()
            assert printed(session, code) == second
            return [first, second]

    assert draws(1) == draws(1) != draws(2)
    assert len(set(draws(1))) == 2


def test_nothing_of_the_host_is_in_sight(
    session: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    code = (
        "import os, sys\n"
        "print(dict(os.environ), sys.argv, sys.executable, os.getcwd(), sys.stdin.read())"
    )
    assert printed(session, code) == "{} ['']  /tmp \n"
    places = ("/proc/self", "/etc/passwd", "/root/.ssh", "/home", "/var", str(ROOT))
    code = f"[p for p in {places} if os.path.exists(p)]"
    assert printed(session, code) == "[]\n"
    assert "ModuleNotFoundError" in session.run("import macaron").error
    assert "ModuleNotFoundError" in session.run("import pip, pydantic").error
    assert str(ROOT) not in printed(session, "import sys\nprint(sys.path, sys.modules.keys())")


# Each limit: code that meets it, with the limits of AMPLE and with others.
Limit = tuple[dict[str, Any], str, Callable[[Cell], bool]]
LIMITS: dict[str, Limit] = {
    "cpu_s": ({"cpu_s": 1}, "sum(range(10**9))", lambda c: c.outcome == "timeout"),
    "wall_s": ({"wall_s": 0.3}, "import time\ntime.sleep(2)", lambda c: c.outcome == "timeout"),
    "memory_mib": ({"memory_mib": 16}, "x = bytearray(100 << 20)", lambda c: c.outcome == "memory"),
    "file_mib": (
        {"file_mib": 1}, "open('a', 'wb').write(bytes(2 << 20))", lambda c: "too large" in c.error,
    ),
    "folder_mib": (
        {"folder_mib": 4},
        "for i in range(9): open(str(i), 'wb').write(bytes(1 << 20))",
        lambda c: "No space" in c.error,
    ),
    "open_files": (
        {"open_files": 3},
        "x = [open('a', 'w') for _ in range(4)]",
        lambda c: "Too many" in c.error,
    ),
    "processes": (
        {"processes": 2},
        "import threading\nt = threading.Thread(target=print, args=('ran',))\nt.start()\nt.join()",
        lambda c: c.printed == "ran\n",
    ),
    "output_chars": ({"output_chars": 5}, "'x' * 9", lambda c: c.cut),
    "flood_chars": ({"flood_chars": 10}, "print('x' * 11)", lambda c: c.outcome == "output"),
    "message_kib": ({"message_kib": 1}, f"x = '{'x' * 2000}'", lambda c: "bytes" in c.error),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_limits(server: NamespaceServer, name: str) -> None:
    changed, code, met = LIMITS[name]
    ample = {"cpu_s": AMPLE.cpu_s, "wall_s": AMPLE.wall_s}
    if name != "cpu_s":  # nine seconds of work prove little
        with Namespace(AMPLE, server=server) as session:
            assert not met(session.run(code))
    with Namespace(NamespaceLimits(**{**ample, **changed}), server=server) as session:
        assert met(session.run(code)), session.run(code)
        assert printed(session, "1 + 1") == "2\n"


def test_threads_are_counted_and_end_with_their_cell(server: NamespaceServer) -> None:
    limits = NamespaceLimits(cpu_s=30, wall_s=60.0, processes=3)
    sleep = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    start = f"import threading, time\nfor i in range(20):\n    {sleep}\n    print(i)"
    work = "n = 0\ndef work():\n    global n\n    while True: n += 1\n"
    with Namespace(limits, server=server) as session:
        flood = session.run(start)
        assert (flood.outcome, flood.printed) == ("error", "0\n1\n2\n")
        printed(session, f"{work}threading.Thread(target=work, daemon=True).start()")
        first = printed(session, "n")
        assert printed(session, "time.sleep(0.1)\nn") == first
        assert session.run("import os\nos.fork()").outcome == "error"


def test_workspace_limits_of_any_kind_do(server: NamespaceServer) -> None:
    class Workspace:
        """The HCP's section, by its fields."""

        cpu_s, wall_s, memory_mib, processes = 7, 8.0, 64, 0
        file_mib, open_files, network, level = 3, 4, False, ("seccomp",)

    with Namespace(Workspace(), server=server) as session:
        assert (session.limits.cpu_s, session.limits.file_mib, session.limits.calls) == (7, 3, 1000)


def test_what_the_sandbox_lacks_is_one_clear_error(server: NamespaceServer) -> None:
    with pytest.raises(ConfigError, match=r"^workspace\.network: the sandbox has no network \("):
        Namespace(NamespaceLimits(network=True), server=server)
    with pytest.raises(ConfigError, match="no level of isolation is named 'moat'"):
        Namespace(NamespaceLimits(level=("moat",)), server=server)


def test_a_level_that_is_demanded_and_not_active_is_an_error() -> None:
    server = NamespaceServer(without=LOCKED)
    with pytest.raises(ConfigError, match=r"^workspace\.level: .*not active here: namespaces;"):
        Namespace(NamespaceLimits(level=("namespaces", "seccomp")), server=server)
    server.close()


def test_without_namespaces_sessions_have_no_files_and_say_so() -> None:
    server = NamespaceServer(without=LOCKED)
    with Namespace(AMPLE, server=server) as session:
        assert not set(LOCKED) & set(session.level)
        assert printed(session, "import json, re, random, statistics\nx = 1") == ""
        session.snapshot()
        assert printed(session, "x += 1\nx") == "2\n"
        session.restore()
        assert printed(session, "x") == "1\n"
        for code in ("open('/etc/passwd')", "open('a', 'w')", "import os\nos.listdir('.')"):
            assert session.run(code).outcome == "error"
        assert session.shell("true").error == (
            "no shell on this host: it allows no namespaces with mounts"
        )
    server.close()


def test_without_a_filter_there_are_no_sessions() -> None:
    server = NamespaceServer(without=("seccomp",))
    with pytest.raises(SandboxError, match="cannot filter system calls"):
        Namespace(AMPLE, server=server)
    server.close()


def test_a_server_that_does_not_start_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "zygote.py"
    broken.write_text("raise SystemExit")
    monkeypatch.setattr(namespace_server, "ZYGOTE", broken)
    with pytest.raises(SandboxError, match=r"^namespace: its server did not start \("):
        Namespace(AMPLE, server=NamespaceServer())


def test_a_shell_works_on_the_sessions_files(session: Namespace) -> None:
    printed(session, "open('a', 'w').write('b\\na\\n')")
    assert session.shell("sort a | tee c; pwd").printed == "a\nb\n/tmp\n"
    assert printed(session, "open('c').read()") == "'a\\nb\\n'\n"
    found = session.shell("echo out; echo err >&2; exit 3")
    assert (found.outcome, found.printed, found.error) == ("error", "out\nerr\n", "exit status 3")
    assert session.shell("kill -9 $$").error == "ended by signal 9"
    cut = session.shell("seq 1000", chars=10)
    assert cut.cut and cut.printed.startswith("1\n2\n3\n4\n5\n\n[")
    session.snapshot()
    session.shell("rm -r ./*; echo x > d")
    session.restore()
    assert session.shell("ls").printed == "a\nc\n"


def test_a_tool_may_use_the_shell_while_a_cell_waits(session: Namespace) -> None:
    tools = {"shell": lambda a: session.shell(a["command"]).printed}
    code = "open('a', 'w').write('x' * 5)\nlen(shell(command='cat a a'))"
    assert printed(session, code, tools=tools) == "10\n"


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("sleep 60", "timeout"),
        ("while :; do :; done", "timeout"),
        ("yes", "output"),
        ("b() { b | b & }; b; sleep 60", "timeout"),
        ("cat /etc/passwd", "error"),
        ("cat /proc/1/environ", "error"),
        ("ls /root /home /work", "error"),
        ("touch /usr/bin/planted", "error"),
        ("dd if=/dev/zero of=big bs=1M count=100", "error"),
        ("head -c 1000000000 /dev/zero | tail > /dev/null", "error"),
        ("mount -t tmpfs x /tmp", "error"),
        ("unshare -r true", "error"),
        ("chroot /tmp true", "error"),
        ("ln -s /etc/passwd link", "error"),
        ("kill -9 -1", "error"),
        ("kill -9 1", "error"),
        ("exec 3<>/dev/tcp/127.0.0.1/80", "error"),
        ("env | grep -v -e PWD -e PATH -e HOME -e LANG -e _=", "error"),
    ],
)
def test_a_shell_command_stays_inside(server: NamespaceServer, command: str, outcome: str) -> None:
    with Namespace(NamespaceLimits(cpu_s=1, wall_s=3.0, memory_mib=64), server=server) as session:
        printed(session, "x = 1")
        found = session.shell(command)
        if command.startswith(("while", "b()")):
            # Whichever limit is met first.
            assert found.outcome in ("timeout", "error"), found
        else:
            assert found.outcome == outcome, found
        assert session.shell("echo on").printed == "on\n"
        assert printed(session, "x") == "1\n"


def test_what_a_shell_command_started_ends_with_it(session: Namespace) -> None:
    session.shell("(while :; do echo x >> alive; sleep 0.02; done) & setsid sleep 60 & true")
    size = "import os\nos.path.getsize('alive') if os.path.exists('alive') else 0"
    before = printed(session, size)
    time.sleep(0.2)
    assert printed(session, size) == before


def test_another_session_goes_on_while_attackers_spin(server: NamespaceServer) -> None:
    """Each has one process at a time, and the kernel shares the processors among them."""
    hostile = (
        "while True: pass",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "x = []\nwhile True:\n    try: x.append(bytearray(1 << 20))\n    except MemoryError: pass",
    )
    spin = (
        "import os, threading\nfrom macaron.harness.namespace import Namespace, NamespaceLimits\n"
        "limits = NamespaceLimits(cpu_s=60, wall_s=120.0)\n"
        "def attack(code):\n    with Namespace(limits) as session:\n"
        "        os.write(1, b'up\\n')\n        session.run(code)\n"
        f"for code in {hostile!r}:\n    threading.Thread(target=attack, args=(code,)).start()"
    )
    attackers = subprocess.Popen(
        [sys.executable, "-c", spin], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert attackers.stdout is not None
        assert [attackers.stdout.readline() for _ in hostile] == ["up\n"] * 3
        with Namespace(AMPLE, server=server) as session:
            printed(session, "count = 0")
            for i in range(1, 51):
                session.snapshot()
                cell = session.run("count += 1\nsum(range(10_000))\ncount")
                session.commit()
                assert (cell.outcome, cell.printed) == ("ok", f"{i}\n")
                # What it used is its own work: none of the attackers' is on its account.
                assert cell.cpu_s < 1
    finally:
        attackers.kill()
        attackers.wait()
        assert attackers.stdout is not None
        attackers.stdout.close()


def test_a_pool_gives_sessions_that_nobody_used(server: NamespaceServer) -> None:
    with NamespacePool(2, AMPLE, server=server) as pool:
        first = pool.acquire(seed=1)
        printed(first, "x = 1")
        pool.release(first)
        several = [pool.acquire(seed=1) for _ in range(4)]
        assert len(pool) == 2
        draws = [
            printed(s, "import random\nprint('x' in globals(), random.random())") for s in several
        ]
        assert len(set(draws)) == 1 and draws[0].startswith("False")
        for session in several:
            pool.release(session)
    assert len(pool) == 0


def test_all_ends_with_the_host() -> None:
    code = (
        "import time\nfrom macaron.harness.namespace import Namespace\n"
        "session = Namespace()\nsession.run('x = 1')\nsession.snapshot()\nsession.run('x = 2')\n"
        "print('up', flush=True)\ntime.sleep(60)"
    )
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    assert host.stdout is not None
    assert host.stdout.readline() == b"up\n"
    running = descendants(host.pid)
    assert len(running) >= 3
    host.kill()
    host.wait()
    host.stdout.close()
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in running) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in running)


def test_a_forked_host_gets_a_server_of_its_own() -> None:
    code = (
        "import os, sys\nfrom macaron.harness.namespace_server import shared_server\n"
        "from macaron.harness.namespace import Namespace\n"
        "mine = shared_server().pid\nchild = os.fork()\n"
        "if child == 0:\n    assert shared_server().pid != mine\n    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "with Namespace() as session:\n    print(session.run('6 * 7').printed, end='')"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert found.stdout == "42\n", found.stderr


def test_cells_are_values(session: Namespace) -> None:
    cell = session.run("print('\\ud800')")
    assert json.loads(json.dumps(cell.printed)) == "?\n"
    assert cell.printed.encode() == b"?\n"
    assert 0 < cell.cpu_s < 30


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=200), st.sampled_from([b"", b"D", b"F", b"T", b"R"]))
def test_whatever_is_written_on_the_pipe_is_contained(
    session: Namespace, junk: bytes, kind: bytes
) -> None:
    head = kind + len(junk).to_bytes(4, "little") if kind else b""
    session.run("x = 1")
    cell = session.run(f"import os\nx = 2\nos.write(4, {head + junk!r})\nos._exit(0)")
    assert cell.outcome in ("killed", "ok", "error", "output", "memory")
    assert session.run("x in (1, 2)").printed == "True\n"


def test_an_ordinary_user_has_sessions_too() -> None:
    python, nobody = shutil.which("python3", path="/usr/bin"), 65534
    if os.geteuid() != 0 or python is None:
        pytest.skip("needs root, and a Python that every user can run")
    version = "import sys; print(sys.version_info >= (3, 11))"
    if subprocess.run([python, "-c", version], capture_output=True).stdout != b"True\n":
        pytest.skip("the system's Python is older than 3.11")
    code = (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from macaron.harness.namespace import Namespace\n"
        "with Namespace() as session:\n"
        '    print(session.run(\'open("a", "w").write("x")\').printed.strip())\n'
        "    print(session.shell('cat a').printed, *session.level)"
    )
    found = subprocess.run(
        [python, "-B", "-c", code], user=nobody, group=nobody, extra_groups=[],
        env={"HOME": "/tmp"}, cwd="/tmp", capture_output=True, text=True,
    )  # fmt: skip
    if "Permission denied" in found.stderr:
        pytest.skip("the project's folder cannot be read by other users")
    assert found.stdout.split()[:2] == ["1", "x"], found.stderr
    assert "nobody" not in found.stdout and "seccomp" in found.stdout
