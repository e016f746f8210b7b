"""A real Chromium for the page's tests, and a page that remembers what it should never do."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serve.page.browser import Watched
from tests.serve.page.stand_in import PageServer, Running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright; without one the tests are skipped.

    It ends with its file: while playwright runs, no other test can have an event loop.
    """
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no Chromium here; Debian and Ubuntu: apt-get install chromium")
    with sync.sync_playwright() as driver:
        # Root has no user namespaces of its own to give, so there Chromium needs this.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def server() -> Iterator[PageServer]:
    """The stand-in, with nothing scripted yet."""
    with Running(PageServer()) as state:
        yield state


@pytest.fixture
def watched(chromium: Any, server: PageServer) -> Iterator[Watched]:
    """The page, open; at the end of a test it must have been quiet."""
    watched = Watched(chromium, server.url)
    yield watched
    watched.close()
