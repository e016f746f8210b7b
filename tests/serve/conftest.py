"""A real uvicorn on 127.0.0.1 in a thread, over the scripted service."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn

from macaron.serve.http.app import create_app
from macaron.serve.http.keys import KeyFile
from macaron.serve.http.metrics import Metrics
from macaron.serving import ServeConfig
from tests.serve.scripted import ScriptedService


@dataclass
class Running:
    """A server and what is behind it."""

    service: ScriptedService
    keys: KeyFile
    metrics: Metrics
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)

    def until(self, true: Callable[[], Any], seconds: float = 10) -> None:
        """Waits for what the server's thread does."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, self.service.log
            time.sleep(0.005)


@contextmanager
def serving(keys: Path, page: Path | None = None, **settings: Any) -> Iterator[Running]:
    service, file = ScriptedService(), KeyFile(keys)
    metrics = Metrics(health=service.health)
    more = {} if page is None else {"page": page}
    app = create_app(service, ServeConfig(**settings), file, metrics, **more)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    run = server.serve([listening])
    thread = threading.Thread(target=lambda: asyncio.run(run), daemon=True)
    thread.start()
    running = Running(service, file, metrics, listening.getsockname()[1])
    running.until(lambda: server.started)
    try:
        yield running
    finally:
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive() and service.closed


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers with settings; they end with the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(
            serving(settings.pop("keys", tmp_path / "keys.json"), **settings)
        )


@pytest.fixture
def server(start: Start) -> Running:
    """One with the default settings."""
    return start()
