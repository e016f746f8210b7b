"""The outermost layer: names and logs each request, guards the browser, hides what breaks.

Whatever happens inside, a client gets OpenAI's error form and the security headers.
"""

import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from macaron.serve.http import errors, sse
from macaron.serve.http.asgi import App, Message, Receive, Scope, Send, encoded
from macaron.serve.http.errors import ApiError
from macaron.serve.http.exchange import json_headers
from macaron.serve.http.gate import is_loopback
from macaron.serve.http.log import access
from macaron.serve.http.metrics import Metrics
from macaron.serve.http.notes import PLACE, Notes
from macaron.serving import ServeConfig

SECURITY = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Of every answer that does not set them itself, as the page does."""


class Shell:
    """ASGI middleware.

    Args:
        app: what it is around.
        config: the server's settings.
        metrics: where requests are counted.
    """

    def __init__(self, app: App, config: ServeConfig, metrics: Metrics) -> None:
        self._app, self._config, self._metrics = app, config, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; the server's own events pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        notes = scope[PLACE] = Notes(method=scope["method"])
        try:
            await self._guarded(scope, receive, _adding(send, notes), notes)
        finally:
            notes.route = _template(scope)
            self._metrics.requested(notes)
            access.info(notes.line())

    async def _guarded(self, scope: Scope, receive: Receive, send: Send, notes: Notes) -> None:
        try:
            self._check_origin(Headers(scope=scope))
            await self._app(scope, receive, send)
        except ClientDisconnect:
            notes.end = notes.end or "gone"
        except Exception as error:
            fault = errors.told(error, notes.request_id)
            notes.error = fault.code
            if not notes.status:
                await answer(fault, send)

    def _check_origin(self, headers: Headers) -> None:
        """Another site's page in a browser on this machine must not reach the server.

        Such a page can have its own name resolve to this machine, or send a form here.
        """
        host = _name(headers.get("host", ""))
        known = is_loopback(host) or host in self._config.hosts
        if not known and (self._config.hosts or is_loopback(self._config.host)):
            raise ApiError(403, "The server does not go by this Host.", code="unknown_host")
        origin = headers.get("origin")
        if origin and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            raise ApiError(403, "Requests from other origins are refused.", code="other_origin")


async def answer(fault: ApiError, send: Send) -> None:
    """Sends an error."""
    body = sse.dumps(fault.body())
    headers = encoded(json_headers(body) | fault.headers)
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _adding(send: Send, notes: Notes) -> Send:
    """Adds the headers that every answer has, and notes its status."""

    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            notes.status = message["status"]
            headers = list(message.get("headers", ()))
            there = {name.lower() for name, _ in headers}
            ours = encoded(SECURITY | notes.headers())
            message = {**message, "headers": headers + [h for h in ours if h[0] not in there]}
        await send(message)

    return add


def _name(host: str) -> str:
    """A Host header without its port."""
    return re.sub(r":\d*$", "", host).strip("[]").lower()


def _template(scope: Scope) -> str:
    """The matched route's path, so that ids and nonsense in paths are no labels."""
    route = scope.get("route")
    return str(getattr(route, "path", "") or "other")
