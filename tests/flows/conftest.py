"""One Prefect server for all whole cycles; a temporary one takes seconds to start each time."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API's URL of a real server with a database of its own."""
    home: Path = tmp_path_factory.mktemp("prefect")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port), "--no-ui"]
    log = (home / "server.log").open("wb")
    server = subprocess.Popen(
        command, env=os.environ | {"PREFECT_HOME": str(home)}, stdout=log, stderr=log
    )
    url = f"http://127.0.0.1:{port}/api"
    try:
        _wait(f"{url}/health", server, home / "server.log")
        yield url
    finally:
        server.terminate()
        server.wait(30)


def _wait(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(360):
        try:
            urllib.request.urlopen(url, timeout=5)
            return
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.5)
    raise AssertionError(log.read_text())


@pytest.fixture
def _server(prefect_server: str) -> Iterator[None]:
    """Cycles of the test use the server."""
    os.environ["PREFECT_API_URL"] = prefect_server
    yield
    del os.environ["PREFECT_API_URL"]
