"""The web page at /: static files of our own, under a policy that lets nothing else run.

What a model wrote is never among them: a preview is a sandboxed frame without scripts, filled from
the page itself.
"""

from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).resolve().parent.parent / "page"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",
}
PREVIEW = "preview.css"
"""The one file that a preview loads; its frame has no origin, so that it comes from elsewhere."""


class Page(StaticFiles):
    """The files of a folder, which has an index.html."""

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__(directory=folder, html=True)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, under the policy."""
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        if path == PREVIEW:
            response.headers["cross-origin-resource-policy"] = "cross-origin"
        return response
