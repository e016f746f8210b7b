"""Real DeepSpeed launches of two processes: the same bits after a kill, one line for a fault."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from macaron.errors import TrainingError
from macaron.mint.job import load_job
from macaron.mint.launch import command, train
from macaron.mint.result import Result, load_results
from tests.mint.jobs import make_job

# Trains, and kills itself, the parent of the launch, at an event of the given specialist and step.
KILLED = """
import os, signal, sys
from pathlib import Path
from macaron.mint.launch import train

job, specialist, step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def on_event(event):
    if event.get("specialist") == specialist and event.get("step") == step:
        os.kill(os.getpid(), signal.SIGKILL)
train(job, on_event, job.with_name("killed.log"))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Result], list[Any]]:
    """A job that ran undisturbed: its file, results and events."""
    path = make_job(tmp_path_factory.mktemp("whole"))
    events: list[Any] = []
    return path, train(path, events.append, path.with_name("train.log")), events


def _processes(job: Path) -> list[int]:
    """Every process with the job's path in its command line, but this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(job).encode() in line and state != "Z" and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def _gone(job: Path, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while _processes(job) and time.monotonic() < end:
        time.sleep(0.1)
    return not _processes(job)


@pytest.mark.full
def test_a_launch_trains_every_specialist(
    whole: tuple[Path, dict[str, Result], list[Any]],
) -> None:
    path, results, events = whole
    assert [e["event"] for e in events] == [
        "start", *["specialist", *["step"] * 4, "landed"] * 2, "done",
    ]  # fmt: skip
    assert events[-1]["revisions"] == {key: r.revision for key, r in results.items()}
    log = path.with_name("train.log").read_text()
    # The command a person is shown is the one that ran, whatever its port.
    shown = command(path, processes=2, port=1)
    assert all(part in log for part in shown if not part.startswith("--master_port"))
    assert "--num_accelerators=2" in shown and "dist_world_size=2" in log
    assert _gone(path, 5)


@pytest.mark.full
def test_a_finished_job_is_not_launched_again(
    whole: tuple[Path, dict[str, Result], list[Any]],
) -> None:
    path, results, _ = whole
    events: list[Any] = []
    assert train(path, events.append, path.with_name("again.log")) == results
    assert not events and not path.with_name("again.log").exists()


@pytest.mark.full
def test_killed_in_the_middle_it_leaves_nothing_running_and_ends_in_the_same_bits(
    whole: tuple[Path, dict[str, Result], list[Any]], tmp_path: Path
) -> None:
    _, undisturbed, _ = whole
    path = make_job(tmp_path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), "L2", "2"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert _gone(path, 10), "processes of the launch outlived their parent"
    assert load_results(load_job(path)) is None
    events: list[Any] = []
    results = train(path, events.append, path.with_name("train.log"))
    told = [(e["event"], e.get("specialist"), e.get("step")) for e in events]
    assert told[1] == ("skipped", "L1", None)
    assert events[2]["event"] == "specialist" and events[2]["resumed"]
    # The step that was told of had been written down before; it is not done again. A third may
    # have been written down, untold, before the launch heard that its parent was gone.
    assert [step for kind, _, step in told if kind == "step"] in ([3, 4], [4])
    assert {k: r.revision for k, r in results.items()} == {
        k: r.revision for k, r in undisturbed.items()
    }


@pytest.mark.full
def test_a_fault_in_training_is_one_line_and_writes_nothing(tmp_path: Path) -> None:
    path = make_job(tmp_path, ("L1",), lr=1e30)
    with pytest.raises(TrainingError, match=r"^L1, step \d: .* not finite") as error:
        train(path, lambda _: None, tmp_path / "train.log")
    assert str(tmp_path / "train.log") in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out" / "L1" / "adapter").exists()
    assert _gone(path, 5)


@pytest.mark.full
def test_a_launch_that_takes_too_long_is_stopped_whole(tmp_path: Path) -> None:
    path = make_job(tmp_path, ("L1",), timeout=2)
    with pytest.raises(TrainingError, match="took longer than 2 s"):
        train(path, lambda _: None, tmp_path / "train.log")
    assert _gone(path, 5)


@pytest.mark.full
def test_a_launch_that_dies_is_an_error_though_the_launcher_says_success(tmp_path: Path) -> None:
    """DeepSpeed's launcher exits 0 when the process below it was killed by a signal."""
    path = make_job(tmp_path, ("L1",))

    def kill_below(event: dict[str, Any]) -> None:
        if event["event"] == "start":
            for pid in _processes(path):
                if b"deepspeed.launcher.launch" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)

    with pytest.raises(TrainingError, match="ended before the training did"):
        train(path, kill_below, tmp_path / "train.log")
    assert _gone(path, 5)


def test_the_command_is_deepspeeds_own(tmp_path: Path) -> None:
    line = command(tmp_path / "job.json", processes=3, port=1234)
    assert Path(line[0]).name == "deepspeed"
    assert line[1:] == [
        "--num_accelerators=3", "--master_port=1234", "--no_local_rank",
        "--module", "macaron.mint.train", str(tmp_path / "job.json"),
    ]  # fmt: skip


def test_a_faulty_job_is_found_before_anything_is_launched(tmp_path: Path) -> None:
    path = make_job(tmp_path, ("L1",))
    value = json.loads(path.read_text())
    value["specialists"][0]["tasks"]["digest"] = "0" * 64
    path.write_text(json.dumps(value))
    with pytest.raises(Exception, match="recorded as 000000000000"):
        train(path, lambda _: None, tmp_path / "train.log")
    assert not (tmp_path / "train.log").exists()
