"""The tracking server, configured by the shipped file and started by the documented command."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from macaron.registry.dvcfiles import md5_tree
from macaron.registry.tracking import Tracking
from tests.registry.parts import ROOT, make_verdict

pytestmark = pytest.mark.full


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path, empty_database: Path) -> Iterator[str]:
    (tmp_path / ".macaron" / "mlflow").mkdir(parents=True)
    shutil.copy(empty_database, tmp_path / ".macaron" / "mlflow" / "mlflow.db")
    url = f"http://127.0.0.1:{free_port()}"
    # The README's command, with this Python's MLflow and a free port.
    command = (
        f"set -a; . {ROOT}/mlflow/server.env; exec {sys.executable} -m mlflow server "
        f"--workers 1 --port {url.rsplit(':', 1)[1]}"
    )
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", command], cwd=tmp_path, stdout=log, stderr=log, start_new_session=True
        )
    try:
        for _ in range(600):
            if process.poll() is not None or healthy(url):
                break
            time.sleep(0.5)
        assert healthy(url), (tmp_path / "log").read_text()
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.read() == b"OK")
    except OSError:
        return False


def test_a_cycle_through_the_server(server: str, tmp_path: Path) -> None:
    pair = tmp_path / "pair"
    pair.mkdir()
    (pair / "manifest.json").write_text("{}")
    tracking = Tracking(server, "macaron", tmp_path / "state" / "artifacts")
    tracking.prepare()
    run = tracking.cycle_run("night-1", {"seed": 1}, {})
    tracking.log_steps(tracking.specialist_run(run, "L0"), [{"step": 0, "reward": 0.5}])
    tracking.log_verdict(run, make_verdict(True))
    version = tracking.register(pair, run, {"pair_id": "aaaa", "verdict": "promoted"})
    assert tracking.register(pair, run, {"pair_id": "aaaa", "verdict": "promoted"}) == version
    tracking.promote(version)
    tracking.finish(run)
    champion = tracking.champion()
    assert champion is not None and champion.pair_id == "aaaa"
    (found,) = tracking.versions()
    assert found.aliases == ("champion",)
    copy = tmp_path / "copy"
    copy.mkdir()
    assert md5_tree(tracking.fetch(found, copy)) == md5_tree(pair)
    assert tracking.numbers(run)["suite/chat/challenger"] == 0.8
    # The artifacts went through the server, to where its file says.
    kept = list((tmp_path / ".macaron" / "mlflow" / "artifacts").rglob("manifest.json"))
    assert len(kept) == 1
