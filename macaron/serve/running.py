"""Running the server: parts opened, listened, and closed again, whatever ends it."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TextIO

import uvicorn
import uvloop

from macaron.engines.stream import StreamEngine
from macaron.engines.upstream.connect import connect_upstream
from macaron.errors import ConfigError, ServiceError
from macaron.mindforge.stores import pair_store
from macaron.serve.http.app import create_app
from macaron.serve.http.gate import Gate
from macaron.serve.http.keys import KeyFile
from macaron.serve.http.limits import Allowances
from macaron.serve.http.metrics import Metrics
from macaron.serve.opening import Opening, champion_of, local_engine, open_service
from macaron.serve.service import Limits
from macaron.serve.sql.place import timeline_url
from macaron.serve.sql.timeline import open_timeline
from macaron.serving import ServeConfig

GRACE_S = 20
"""For requests that run when the server is asked to stop, seconds."""

log = logging.getLogger("macaron.serve")


def run(opening: Opening, config: ServeConfig, ready: Callable[[str], None]) -> None:
    """Serves until a signal says to stop.

    Args:
        opening: the project, and which pair.
        config: the server's settings.
        ready: told the address once requests are answered.

    Raises:
        ConfigError: what is set cannot be used, or the port is taken.
        MacaronError: the champion, a store or an upstream cannot be opened.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(opening, config, ready))


async def _serve(opening: Opening, config: ServeConfig, ready: Callable[[str], None]) -> None:
    settings = opening.settings
    keys = KeyFile(settings.serve_keys)
    limits = Limits(running=config.limits.running, retention_days=config.retention_days)
    opening = replace(opening, limits=limits)
    # What a person has to mend is said before the seconds that a base takes to load.
    Gate(config, keys, Allowances(config.limits))
    champion_of(settings, opening.pair, pair_store(settings))()
    engine = await _engine(opening, config)
    timeline = await open_timeline(timeline_url(settings, config))
    service = open_service(opening, engine, timeline)
    metrics = Metrics(engine.stats, service.health, service.counts)
    try:
        app = create_app(service, config, keys, metrics)
        await service.start()
        await _listen(app, config, ready)
    finally:
        await service.close()


async def _engine(opening: Opening, config: ServeConfig) -> StreamEngine:
    if url := config.upstream.url:
        key = os.environ.get(config.upstream.key_variable)
        return await connect_upstream(url, key, kind=config.upstream.kind)
    here = config.engine
    return await asyncio.to_thread(
        local_engine, opening, here.rows, here.cache_mib << 20, here.threads
    )


async def _listen(app: object, config: ServeConfig, ready: Callable[[str], None]) -> None:
    """Answers requests until the server is asked to stop."""
    server = uvicorn.Server(
        uvicorn.Config(
            app,  # type: ignore[arg-type]
            host=config.host,
            port=config.port,
            log_config=None,
            access_log=False,
            server_header=False,
            # The service is closed by who opened it.
            timeout_graceful_shutdown=GRACE_S,
            h11_max_incomplete_event_size=64 << 10,
        )
    )
    told = asyncio.create_task(_tell(server, config, ready))
    try:
        await server.serve()
    except SystemExit as error:
        raise ConfigError(
            f"cannot listen on {config.host}:{config.port}",
            where="serve.port",
            mend="choose another port, or end what uses this one",
        ) from error
    finally:
        told.cancel()
    if not server.started:
        raise ServiceError("the server did not start", where=config.host, mend="see its log")


async def _tell(server: uvicorn.Server, config: ServeConfig, ready: Callable[[str], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    ready(f"http://{config.host}:{port}")


def log_to(stream: TextIO = sys.stderr) -> None:
    """Sends the server's own lines, one a request, to a stream; nothing of a text is in them."""
    logging.basicConfig(
        level=os.environ.get("LOGLEVEL", "INFO"), format="%(message)s", stream=stream, force=True
    )
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    for name in ("httpx", "alembic", "mlflow", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
