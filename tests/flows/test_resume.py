"""A cycle that is killed again and again ends in the same pair as one that is left alone."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import champion, command, environment, last_cycle, macaron, make_project

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("_server")]

# Some steps of training have to pass, so that a kill can fall between them.
GRPO = {"steps": 6}
BOUNDARIES = ("collect", "validate", "curate", "train", "evaluate", "judge", "version", "promote")


def test_killed_at_every_boundary_and_in_training_ends_in_the_same_pair(tmp_path: Path) -> None:
    quiet, killed = (make_project(tmp_path / n, inbox=True, **GRPO) for n in ("quiet", "killed"))
    undisturbed = macaron(quiet, "improve")
    assert undisturbed.returncode in (0, 3), undisturbed.stderr

    for step in BOUNDARIES:
        if step == "train":
            _kill_when(killed, lambda: _trained_steps(killed) >= 3)
        _kill_when(killed, lambda step=step: _receipt(killed, step).exists())  # type: ignore[misc]
    finished = macaron(killed, "improve")

    assert finished.returncode == undisturbed.returncode, finished.stderr
    assert len(list((killed / ".macaron" / "cycles").iterdir())) == 1
    assert last_cycle(killed)["challenger"] == last_cycle(quiet)["challenger"]
    assert last_cycle(killed)["state"] == last_cycle(quiet)["state"]
    assert champion(killed) == champion(quiet)
    assert _tags(killed) == _tags(quiet)


def _kill_when(root: Path, happened: Callable[[], bool]) -> None:
    """Runs a cycle and kills its whole session the moment that something has happened."""
    process = subprocess.Popen(
        command("improve"), cwd=root, env=environment(root), stderr=subprocess.PIPE, text=True
    )
    while not happened():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    # The flow runs in a session of its own; it dies with its parent.
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _wait_for_lock(root)


def _wait_for_lock(root: Path) -> None:
    """Until the kernel has put the flow's process away."""
    import fcntl

    with (root / ".macaron" / "cycle.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def _receipt(root: Path, step: str) -> Path:
    cycles = root / ".macaron" / "cycles"
    return next(cycles.glob(f"*/receipts/{step}.json"), cycles / "none")


def _trained_steps(root: Path) -> int:
    logs = list((root / ".macaron" / "cycles").glob("*/training/train.log"))
    return logs[0].read_text(errors="replace").count('"event":"step"') if logs else 0


def _tags(root: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "tag", "-l", "pair/*"], cwd=root, capture_output=True, text=True, check=True
    )
    return listed.stdout.split()
