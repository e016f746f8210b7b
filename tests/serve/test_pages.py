"""The web page's files and the policy they are served under."""

from pathlib import Path

import httpx
import pytest

from tests.serve.conftest import Running, Start


@pytest.fixture
def server(start: Start, tmp_path: Path) -> Running:
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text("<!doctype html><title>Macaron</title>")
    (page / "main.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    (page / "link.txt").symlink_to(tmp_path / "secret.txt")
    return start(page=page)


@pytest.mark.parametrize(("path", "kind"), [("/", "text/html"), ("/main.js", "text/javascript")])
def test_the_page_runs_its_own_scripts_only(server: Running, path: str, kind: str) -> None:
    found = httpx.get(server.url + path)
    assert found.status_code == 200 and found.headers["content-type"].startswith(kind)
    (policy,) = found.headers.get_list("content-security-policy")
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert found.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/../secret.txt", "/%2e%2e/secret.txt", "/link.txt", "/nothing"])
def test_nothing_outside_of_its_folder_is_shown(server: Running, path: str) -> None:
    found = httpx.get(server.url + path)
    assert found.status_code == 404 and "secret" not in found.text
    assert found.json()["error"]["code"] == "not_found"


def test_the_page_does_not_hide_the_endpoints(server: Running) -> None:
    assert httpx.get(f"{server.url}/v1/models").json()["object"] == "list"
    assert httpx.post(f"{server.url}/main.js").status_code == 405
    assert httpx.put(f"{server.url}/v1/responses").status_code == 405


def test_without_a_page_there_is_none(start: Start, tmp_path: Path) -> None:
    assert httpx.get(f"{start(page=tmp_path / 'nowhere').url}/").status_code == 404
