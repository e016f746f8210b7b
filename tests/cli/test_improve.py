"""`macaron improve` hands its options to the flow, and no process of the flow's stays behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from macaron.cli.flow import run_flow
from macaron.mindforge.cycle import exclusive
from macaron.settings import load_settings
from tests.cli.conftest import HOUSE, Command

ECHO = """
import json, os, sys
with open("seen.json", "w") as file:
    json.dump({"arguments": sys.argv[1:], "home": os.environ["PREFECT_HOME"]}, file)
sys.exit(int(json.loads(sys.argv[2]).get("seed", 0)))
"""

# A flow with a child; says who they are, then waits.
WAIT = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
def stop(number, frame):
    open("stopped", "w").write(str(number))
    sys.exit(1)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN if "deaf" in sys.argv else stop)
with open("pids.new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename("pids.new", "pids")
time.sleep(60)
"""


def flow(root: Path, code: str) -> None:
    (root / "flows").mkdir(exist_ok=True)
    # Without it the house's own flows, which are installed, would be found first.
    (root / "flows" / "__init__.py").touch()
    (root / "flows" / "improve.py").write_text(code)


def test_the_options_reach_the_flow(macaron: Command, root: Path) -> None:
    flow(root, ECHO)
    (root / "chats.jsonl").write_text("{}\n")
    (root / "base").mkdir()
    found = macaron(
        "improve", "--profile", "small", "--base", "base", "--seed", "3",
        "--experience", "chats.jsonl", "--experience", root / "chats.jsonl", "--fresh",
    )  # fmt: skip
    assert found.code == 3
    seen = json.loads((root / "seen.json").read_text())
    assert seen["arguments"][0] == "--parameters"
    assert json.loads(seen["arguments"][1]) == {
        "profile": "small",
        "base": str(root / "base"),
        "seed": 3,
        "experience": [str(root / "chats.jsonl")] * 2,
        "fresh": True,
    }
    assert seen["home"] == os.environ["PREFECT_HOME"]


def test_every_option_of_the_flow_can_be_chosen(macaron: Command, root: Path) -> None:
    from macaron.mindforge.cycle import Options

    help_text = macaron("improve", "--help").out
    assert all(f"--{name}" in help_text for name in Options.model_fields)
    flow(root, ECHO)
    assert macaron("improve").code == 0
    chosen = json.loads(json.loads((root / "seen.json").read_text())["arguments"][1])
    assert Options.model_validate(chosen) == Options()


def test_a_missing_file_or_flow_is_one_line(macaron: Command, root: Path) -> None:
    missing = macaron("improve", "--experience", "nowhere.jsonl")
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert "nowhere.jsonl: no such file" in missing.err
    assert "no flow flows.improve" in macaron("improve").err


@pytest.mark.parametrize("option", ["--contract", "--hcp", "--experience"])
def test_a_folder_is_no_file(macaron: Command, root: Path, option: str) -> None:
    found = macaron("improve", option, "contracts")
    assert (found.code, found.err) == (2, "macaron: contracts: is no file (check the path)\n")


@pytest.fixture
def waiting(root: Path) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """`macaron improve` on a flow that waits: the command's process, the flow's processes."""
    flow(root, WAIT)
    yield from start(root, [])


def start(root: Path, arguments: list[str]) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    code = (
        "import os, sys; from pathlib import Path; from macaron.cli.flow import run_flow\n"
        f"sys.exit(run_flow(Path({str(root)!r}), 'flows.improve', {arguments!r}, os.environ))"
    )
    # Who tests in a script's background ignores SIGINT, and so would the command.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = subprocess.Popen([sys.executable, "-c", code], cwd=HOUSE, text=True, preexec_fn=heard)
    wait_for(lambda: (root / "pids").exists())
    processes = [int(word) for word in (root / "pids").read_text().split()]
    yield command, processes
    command.kill()
    command.wait()


def wait_for(condition: object, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def gone(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_and_nothing_stays(
    waiting: tuple["subprocess.Popen[str]", list[int]], root: Path, number: signal.Signals
) -> None:
    command, processes = waiting
    command.send_signal(number)
    assert command.wait(20) == 128 + number
    assert (root / "stopped").read_text() == str(int(number)), "the flow was asked, not killed"
    wait_for(lambda: all(gone(process) for process in processes))


def test_a_second_signal_kills_a_deaf_flow(root: Path) -> None:
    flow(root, WAIT)
    for command, processes in start(root, ["deaf"]):
        command.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert not gone(processes[0])
        command.send_signal(signal.SIGINT)
        assert command.wait(20) == 128 + signal.SIGINT
        wait_for(lambda: all(gone(process) for process in processes))  # noqa: B023


def test_a_killed_command_takes_all_that_the_flow_started_with_it(
    waiting: tuple["subprocess.Popen[str]", list[int]],
) -> None:
    command, processes = waiting
    command.kill()
    command.wait()
    wait_for(lambda: all(gone(process) for process in processes))


def test_what_is_ignored_from_the_start_stays_ignored(root: Path) -> None:
    flow(root, "import os, signal, sys; os.kill(os.getppid(), signal.SIGINT); sys.exit(3)")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run_flow(root, "flows.improve", [], os.environ) == 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_running_cycle_is_told_before_anything_starts(macaron: Command, root: Path) -> None:
    flow(root, ECHO)
    with exclusive(load_settings(root)):
        found = macaron("improve")
    assert (found.code, found.err.count("\n")) == (8, 1)
    assert str(os.getpid()) in found.err
    assert not (root / "seen.json").exists()


def test_a_flow_that_a_signal_ended_is_an_error(root: Path) -> None:
    flow(root, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert run_flow(root, "flows.improve", [], os.environ) == 128 + signal.SIGKILL
