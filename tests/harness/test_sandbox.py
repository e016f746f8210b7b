"""The sandbox against code that means harm: the host, the worker and the next job survive."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from macaron.environments import environment
from macaron.environments.agent import Agent
from macaron.environments.coding import Coding
from macaron.errors import ConfigError
from macaron.harness.namespace_server import shared_server
from macaron.harness.sandbox import (
    LEVELS,
    Job,
    Limits,
    Result,
    Sandbox,
    check_level,
    common_level,
    demand_level,
    jobs,
    level_line,
    sandbox_level,
    shared_sandbox,
)
from tests.harness.processes import alive, descendants


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    # Small only where it is meant to be met: machines are busy.
    with Sandbox(Limits(cpu_s=20, wall_s=60.0)) as made:
        yield made


def one(sandbox: Sandbox, code: str) -> Result:
    """The result of the code, once the job after it has run as ever."""
    found, after = sandbox.run([Job(code), Job("print('still here')")])
    assert after == Result("ok", ("still here\n",))
    return found


def test_printed_text_is_kept_for_each_datum(sandbox: Sandbox) -> None:
    job = Job("print(twice(DATA))", prelude="def twice(x): return 2 * x", data=(1, "a", [None]))
    assert sandbox.run([job]) == [Result("ok", ("2\n", "aa\n", "[None, None]\n"))]


def test_a_function_is_called_on_each_datum(sandbox: Sandbox) -> None:
    job = Job("def f(x): return {'it': [x, True, 1.5, None]}", call="f", data=(1, "a"))
    outputs = ({"it": [1, True, 1.5, None]}, {"it": ["a", True, 1.5, None]})
    assert sandbox.run([job]) == [Result("ok", outputs)]


def test_results_keep_the_order_of_jobs_and_equal_jobs_run_once(sandbox: Sandbox) -> None:
    code = "import time\nprint(time.monotonic_ns())"
    jobs = [Job("print(0)"), Job(code), *(Job(f"print({i})") for i in range(60)), Job(code)]
    found = sandbox.run(jobs)
    assert [r.outputs[0] for r in found[2:-1]] == [f"{i}\n" for i in range(60)]
    assert found[1] == found[-1]
    assert sandbox.run([]) == []


def test_standard_modules_that_need_no_file_can_be_imported(sandbox: Sandbox) -> None:
    code = (
        "import math, itertools, collections, json, re, string, functools\nprint(math.comb(5, 2))"
    )
    assert sandbox.run([Job(code)]) == [Result("ok", ("10\n",))]


HOSTILE = {
    "division": ("1 / 0", "error"),
    "syntax": ("def", "error"),
    "exit": ("import sys; sys.exit(0)", "error"),
    "hard-exit": ("import os; os._exit(0)", "killed"),
    "recursion": ("def f(): f()\nf()", "error"),
    "memory": ("x = [0] * 10**10", "memory"),
    "growing": ("x = 'a'\nwhile True: x += x", "memory"),
    "deep": ("x = []\nfor _ in range(10**6): x = [x]\nprint(x)", "error"),
    "output": ("while True: print('x' * 1000)", "output"),
    "output-caught": (
        "try:\n    print('x' * 10**6)\nexcept BaseException: pass\nprint('fine')",
        "output",
    ),
    "fork": ("import os\nwhile True: os.fork()", "error"),
    "thread": ("import _thread\n_thread.start_new_thread(print, ())", "error"),
    "sleep": ("import time; time.sleep(60)", "error"),
    "kill-parent": ("import os; os.kill(os.getppid(), 9)", "error"),
    "kill-all": ("import os; os.kill(-1, 9)", "error"),
    "stop-itself": ("import os, signal; os.kill(os.getpid(), 19)", "error"),
    "close-all": ("import os; os.closerange(0, 4096)", "killed"),
    "garbage": ("import os; os.write(0, b'garbage')", "killed"),
    "flood": ("import os\nwhile True: os.write(0, b'x' * 65536)", "output"),
    "read-file": ("open('/etc/passwd').read()", "error"),
    "write-file": ("open('made', 'w')", "error"),
    "list": ("import os; os.listdir('/')", "error"),
    "make": ("import os; os.mkdir('made')", "error"),
    "remove": ("import os; os.unlink('/etc/hostname')", "error"),
    "chmod": ("import os; os.chmod('.', 0o777)", "error"),
    "exec": ("import os; os.execv('/bin/sh', ['sh'])", "error"),
    "pipe": ("import os; os.pipe()", "error"),
    "raise-limits": (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
        "error",
    ),
    "socket": ("import socket", "error"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_harm_stays_inside(sandbox: Sandbox, name: str) -> None:
    code, outcome = HOSTILE[name]
    assert one(sandbox, code).outcome == outcome


def test_an_endless_loop_is_ended_even_if_it_catches_everything() -> None:
    stubborn = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    with Sandbox(Limits(cpu_s=1, wall_s=60.0)) as short:
        assert one(short, stubborn).outcome == "timeout"


def test_a_job_that_waits_is_ended_by_the_wall_clock() -> None:
    lock = "import _thread\nl = _thread.allocate_lock()\nl.acquire()\nl.acquire()"
    with Sandbox(Limits(wall_s=2.0)) as short:
        assert one(short, lock).outcome == "timeout"


@pytest.mark.parametrize("outcome", ["ok", "invalid", "timeout", "nonsense"])
def test_a_job_cannot_forge_an_outcome_that_is_seen_from_outside(
    sandbox: Sandbox, outcome: str
) -> None:
    forged = f"""{{"outcome": "{outcome}", "outputs": [7], "error": ""}}"""
    found = one(sandbox, f"import os\nos.write(0, b'{forged}')\nos._exit(0)")
    assert found == (Result("ok", (7,)) if outcome == "ok" else Result("killed"))


def test_only_plain_values_leave(sandbox: Sandbox) -> None:
    for value in ("{1}", "(1, 2)", "print", "type('A', (int,), {})(1)", "{1: 2}", "1j"):
        job = Job(f"def f(x): return {value}", call="f")
        assert sandbox.run([job])[0].outcome == "error", value


def test_nothing_of_the_host_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    with Sandbox() as fresh:
        found = fresh.run([Job("import os\nprint(*os.environ)"), Job("import os\nos.getcwd()")])
    assert found[0] == Result("ok", ("\n",))
    assert found[1].outcome == "error"


def test_no_socket_by_the_c_library_either(sandbox: Sandbox) -> None:
    code = (
        "import ctypes\nc = ctypes.CDLL(None)\nprint(c.socket(2, 1, 0), c.fork(), c.open(b'/', 0))"
    )
    assert sandbox.run([Job(code)]) == [Result("ok", ("-1 -1 -1\n",))]


def test_its_level_names_what_isolates(sandbox: Sandbox) -> None:
    assert {"rlimits", "seccomp"} <= set(sandbox.level()) <= set(LEVELS)


def test_the_level_of_the_host_holds_for_jobs_and_sessions() -> None:
    level = sandbox_level()
    assert level == common_level(shared_sandbox().level(), shared_server().level)
    assert common_level(("seccomp", "rlimits"), ("nobody", "rlimits", "seccomp")) == (
        "rlimits", "seccomp",
    )  # fmt: skip
    assert level_line(("rlimits", "seccomp")) == (
        "rlimits, seccomp; not active: nobody, namespaces, private-root, landlock"
    )
    assert level_line(tuple(LEVELS)) == ", ".join(LEVELS)


def test_a_demand_is_met_or_one_clear_error() -> None:
    demand_level((), "profile: sandbox")
    demand_level(sandbox_level(), "profile: sandbox")
    with pytest.raises(ConfigError, match=r"^profile: sandbox: no level of isolation is named 'x'"):
        demand_level(("rlimits", "x"), "profile: sandbox")
    with pytest.raises(ConfigError, match="not active here: landlock; active is rlimits, seccomp"):
        check_level(("seccomp", "landlock"), ("rlimits", "seccomp"), "profile: sandbox")


def worker_pid(sandbox: Sandbox) -> int:
    assert sandbox._worker is not None
    return sandbox._worker._process.pid


def test_a_dead_worker_is_replaced_and_the_jobs_run() -> None:
    with Sandbox() as made:
        made.level()
        first = worker_pid(made)
        os.kill(first, signal.SIGKILL)
        jobs = [Job(f"print({i})") for i in range(3)]
        assert made.run(jobs) == [Result("ok", (f"{i}\n",)) for i in range(3)]
        assert worker_pid(made) != first


def test_a_worker_that_keeps_dying_is_invalid_and_never_a_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "worker.py"
    broken.write_text("print('[]', flush=True)\ninput()\n")
    monkeypatch.setattr(jobs, "WORKER", broken)
    with Sandbox() as made:
        assert [r.outcome for r in made.run([Job("print(1)"), Job("print(2)")])] == ["invalid"] * 2
        for name, kind in (("agent", Agent), ("coding", Coding)):
            task = environment(name).sample(random.Random(0), "train")
            score = kind(made).verify([task], [task.reference])[0]
            assert (score.reward, score.valid) == (None, False)
            assert "sandbox" in score.error


def test_it_ends_with_its_parent_and_with_close(tmp_path: Path) -> None:
    host = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from macaron.harness.sandbox import Sandbox\n"
            "import time\nmade = Sandbox()\nmade.level()\nprint('up', flush=True)\ntime.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[2],
    )
    assert host.stdout is not None
    assert host.stdout.readline() == b"up\n"
    running = descendants(host.pid)
    assert running
    host.kill()
    host.wait()
    host.stdout.close()
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in running) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in running)

    made = Sandbox()
    made.level()
    pid, folder = worker_pid(made), made._worker._folder  # type: ignore[union-attr]
    made.close()
    assert not alive(pid)
    assert not folder.exists()
