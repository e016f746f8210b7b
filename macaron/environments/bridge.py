"""A worker process of another Python, asked by JSON lines over pipes.

It ends with this process, whose end closes its standard input.
"""

import atexit
import contextlib
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from macaron.errors import ConfigError, MacaronError

MARGIN_S = 5.0
"""How much longer than the worker itself we wait for its answer."""
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "HF_HOME", "NLTK_DATA")
"""Variables of ours that the worker sees; keys and tokens are not among them."""


class BridgeError(MacaronError):
    """The worker ended, did not answer, or failed."""


class Refusal(ConfigError):  # noqa: N818  (what was asked for is not to be had here)
    """The worker says that what was asked cannot be had here."""


class Fault(Exception):  # noqa: N818
    """A tool in the worker says no; its text is for the model."""


class Bridge:
    """One worker. Safe to use from several threads, one request at a time."""

    def __init__(
        self,
        command: Sequence[str],
        where: str,
        opening: Mapping[str, Any],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            command: of the worker.
            where: what it works on, for errors.
            opening: request with which each worker begins; `opened` is its answer.
            variables: for the worker, beside the few that it sees of ours.
        """
        self._command, self._where, self._opening = list(command), where, dict(opening)
        self._variables = dict(variables or {})
        self.opened: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def ask(self, verb: str, seconds: float, **request: Any) -> dict[str, Any]:
        """The worker's answer.

        Raises:
            Refusal: it cannot be had here.
            Fault: a tool says no.
            BridgeError: the worker failed, ended, or did not answer in time.
        """
        with self._lock:
            self._ensure()
            return self._checked({"verb": verb, "seconds": seconds, **request})

    def start(self) -> None:
        """Starts the worker where it does not run yet; raises as `ask` does."""
        with self._lock:
            self._ensure()

    def _checked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._exchange(json.dumps(request).encode(), request["seconds"] + MARGIN_S)
        if "ok" in answer:
            found: dict[str, Any] = answer["ok"]
            return found
        kinds = {"refused": Refusal, "failed": BridgeError}
        if answer["kind"] in kinds:
            raise kinds[answer["kind"]](answer["error"], where=self._where)
        raise Fault(answer["error"])

    def _exchange(self, line: bytes, seconds: float) -> Any:
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            return json.loads(self._read(process, seconds))
        except (OSError, ValueError) as error:
            self.close()
            raise BridgeError(f"its worker ended: {error}", where=self._where) from error
        except BridgeError:
            self.close()
            raise

    def _ensure(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._start()

    def _start(self) -> None:
        ours = {name: os.environ[name] for name in KEPT if name in os.environ}
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**ours, **self._variables},
        )
        atexit.register(self.close)
        try:
            self.opened = self._checked(self._opening)
        except MacaronError:
            self.close()
            raise

    def _read(self, process: "subprocess.Popen[bytes]", seconds: float) -> bytes:
        assert process.stdout is not None
        pipe, deadline = process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise BridgeError(f"no answer in {seconds:.0f} s", where=self._where)
            chunk = os.read(pipe, 65536)
            if not chunk:
                raise BridgeError("its worker ended", where=self._where)
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def close(self) -> None:
        """Ends the worker; the next request starts another."""
        process, self._process, self._buffer = self._process, None, b""
        if process is None:
            return
        atexit.unregister(self.close)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        process.kill()
        process.wait()


def script(name: str) -> str:
    """A worker's script, beside this file."""
    return str(Path(__file__).with_name(name))
