"""A `macaron serve` in a process of its own, which can be killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil

START_S = 120.0
UNLIMITED = {
    "MACARON_SERVE__LIMITS__REQUESTS_PER_MINUTE": "1000000",
    "MACARON_SERVE__LIMITS__TOKENS_PER_MINUTE": "1000000000",
}


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """Always on the same port of 127.0.0.1."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.root, self.port, self.arguments = root, free_port(), arguments
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Starts it and waits until it answers; seconds that took."""
        began = time.monotonic()
        command = [sys.executable, "-m", "macaron.cli.main", "serve", "--port", str(self.port)]
        log = (self.root / "server.log").open("ab")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MACARON_")}
        self._process = subprocess.Popen(
            [*command, *self.arguments],
            cwd=self.root,
            env=environment
            | UNLIMITED
            | {"MACARON_ROOT": str(self.root), "PYTHONWARNINGS": "ignore"},
            stdout=log,
            stderr=log,
        )
        while time.monotonic() - began < START_S:
            if self._process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return time.monotonic() - began
            except httpx.HTTPError:
                time.sleep(0.1)
        self.kill()
        raise RuntimeError(f"the server did not start:\n{self.tail()}")

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, as an operator would; the exit code."""
        return self._end(signal.SIGTERM)

    def memory(self) -> int:
        """Resident bytes of this process; 0 where it does not run."""
        if self._process is None or self._process.poll() is not None:
            return 0
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def tail(self) -> str:
        """The end of its log."""
        path = self.root / "server.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-20:])

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(how)
        return self._process.wait(60)
