"""The web application over a `Service`: all endpoints, behind keys and limits."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from macaron.serve.http.document import document
from macaron.serve.http.errors import ApiError
from macaron.serve.http.exchange import Desk
from macaron.serve.http.gate import Gate
from macaron.serve.http.keys import KeyFile
from macaron.serve.http.limits import Allowances
from macaron.serve.http.metrics import Metrics
from macaron.serve.http.pages import FOLDER, Page
from macaron.serve.http.routes import chat_routes, model_routes, other_routes, response_routes
from macaron.serve.http.shell import Shell
from macaron.serve.turns import Service
from macaron.serving import ServeConfig


def create_app(
    service: Service,
    config: ServeConfig,
    keys: KeyFile,
    metrics: Metrics,
    page: Path = FOLDER,
) -> FastAPI:
    """The application; when its server stops, it closes the service.

    Args:
        service: answers turns.
        config: the server's settings.
        keys: who may ask.
        metrics: where it is counted.
        page: folder of the web page; without an index.html there is none.

    Raises:
        ConfigError: others could reach the server, and there is no API key.
    """
    allowances = Allowances(config.limits)
    gate = Gate(config, keys, allowances)
    desk = Desk(service, config, metrics, allowances)
    # Its pages of documentation load scripts from elsewhere.
    app = FastAPI(
        title="Macaron",
        description="One model to the client, one specialist per turn.",
        docs_url=None,
        redoc_url=None,
        lifespan=_closing(service),
        redirect_slashes=False,
    )
    for router in (
        chat_routes(desk, gate),
        response_routes(desk, gate),
        model_routes(desk, gate, int(time.time())),
        other_routes(desk, gate),
    ):
        app.include_router(router)
    if (page / "index.html").is_file():
        # Behind the routes, not among them: a mount would take their paths with other methods.
        app.router.default = Page(page)
    app.add_exception_handler(HTTPException, _no_route)
    made = document(app, config.model)
    app.openapi = lambda: made  # type: ignore[method-assign]
    app.add_middleware(Shell, config=config, metrics=metrics)
    return app


async def _no_route(request: Request, error: Exception) -> Response:
    """A path or method that there is not, in the form of every other error."""
    assert isinstance(error, HTTPException)
    code = "method_not_allowed" if error.status_code == 405 else "not_found"
    body = ApiError(error.status_code, f"{error.detail}.", code=code).body()
    return JSONResponse(body, error.status_code, headers=_allowed(request) or error.headers)


def _allowed(request: Request) -> dict[str, str]:
    """All methods of a path: each is a route of its own, which names only its own."""
    route = getattr(request.scope.get("route"), "path", "")
    methods = request.app.openapi()["paths"].get(route, {})
    return {"Allow": ", ".join(sorted(map(str.upper, methods)))} if methods else {}


def _closing(service: Service) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    return life
