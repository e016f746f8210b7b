"""The web page at `/` as routes: its files, found once, with headers that let nothing else in.

Only the files listed here go out: none is named by the client's path.
"""

from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

FOLDER = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The files of one version belong together: a browser asks each time whether they changed.
    "Cache-Control": "no-cache",
}


def page_router() -> APIRouter:
    """Routes for `/` and, by relative address, `/page/<file>`; not part of the OpenAPI schema."""
    router = APIRouter(include_in_schema=False)
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            address = "/" if path.name == "index.html" else f"/page/{path.name}"
            router.add_api_route(address, _file(path), methods=["GET", "HEAD"])
    return router


def _file(path: Path) -> Callable[[], FileResponse]:
    return lambda: FileResponse(path, media_type=TYPES[path.suffix], headers=HEADERS)
