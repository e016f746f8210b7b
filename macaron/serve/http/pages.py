"""The web page at /: static files of our own, under a policy that lets nothing else run.

What a model wrote is never among them: a preview is a sandboxed frame without scripts, filled from
the page itself.
"""

import base64
import hashlib
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).resolve().parent.parent / "page"


def _source(path: Path) -> str:
    """A file as a source of a policy: its text may stand inside a page, no other."""
    digest = hashlib.sha256(path.read_bytes()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


# A preview's frame is under the page's policy too, and has no origin to ask for a file with.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' '{_source(FOLDER / 'preview.css')}'",
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


class Page(StaticFiles):
    """The files of a folder, which has an index.html."""

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__(directory=folder, html=True)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, under the policy."""
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response
