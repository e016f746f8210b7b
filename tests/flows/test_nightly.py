"""The nightly deployment, end to end: a real server, a real process worker, a scheduled run."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.project import champion, environment, last_cycle, make_project

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("_server")]


def _prefect(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", *arguments],
        cwd=root,
        env=environment(root),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_worker_runs_the_nightly_deployment(tmp_path: Path) -> None:
    root = make_project(tmp_path / "house")
    _prefect(root, "work-pool", "create", "macaron", "--type", "process", "--overwrite")
    _prefect(root, "deploy", "--all")
    assert "0 2 * * *" in _prefect(root, "deployment", "inspect", "improve/nightly")
    _prefect(root, "deployment", "run", "improve/nightly")
    log = (tmp_path / "worker.log").open("wb")
    worker = subprocess.Popen(
        [sys.executable, "-m", "prefect", "worker", "start", "--pool", "macaron"],
        cwd=root,
        env=environment(root),
        stdout=log,
        stderr=log,
        start_new_session=True,
        # Who tests in a script's background ignores SIGINT, by which a worker stops itself.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    try:
        record = _wait_for_verdict(root, worker, tmp_path / "worker.log")
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        worker.wait(60)
    assert record["state"] in ("promoted", "rejected"), record["error"]
    expected = record["challenger"] if record["state"] == "promoted" else record["champion"]
    assert champion(root) == expected


def _wait_for_verdict(root: Path, worker: "subprocess.Popen[bytes]", log: Path) -> dict[str, str]:
    for _ in range(600):
        assert worker.poll() is None, log.read_text(errors="replace")
        if list((root / ".macaron" / "cycles").glob("*/cycle.json")):
            record = last_cycle(root)
            if record["state"] != "running":
                return record
        time.sleep(1)
    raise AssertionError(log.read_text(errors="replace"))
