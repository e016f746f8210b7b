"""What a request and a key may use, and what a browser's page may not."""

import json
import socket
import zlib
from typing import Any

import httpx
import openai
import pytest

from macaron.serve.http.limits import KEYS, Allowances
from macaron.serving import Limits
from tests.serve import raw
from tests.serve.conftest import Running, Start

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/feedback")
JSON = {"content-type": "application/json"}


class Clock:
    """Time that passes when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_allowance_comes_back_evenly() -> None:
    clock = Clock()
    allowances = Allowances(Limits(requests_per_minute=2, tokens_per_minute=60), clock)
    assert [allowances.request("a") for _ in range(3)] == [0, 0, 30]
    assert allowances.request("b") == 0, "of another key"
    clock.now = 29
    assert allowances.request("a") == 1
    clock.now = 30
    assert allowances.request("a") == 0
    clock.now = 1e6
    assert [allowances.request("a") for _ in range(3)] == [0, 0, 30], "never more than a minute's"


def test_tokens_are_paid_back_before_more_is_let_through() -> None:
    clock = Clock()
    allowances = Allowances(Limits(requests_per_minute=100, tokens_per_minute=60), clock)
    assert allowances.request("a") == 0
    allowances.used("a", 100)
    assert allowances.request("a") == 41
    clock.now = 41
    assert allowances.request("a") == 0


def test_buckets_of_the_idle_are_forgotten() -> None:
    allowances = Allowances(Limits(requests_per_minute=1))
    for number in range(KEYS + 1):
        assert allowances.request(str(number)) == 0
    assert allowances.request("1") > 0 and allowances.request("0") == 0


def test_a_key_that_asks_too_often_is_told_when_to_come_again(start: Start) -> None:
    server = start(limits={"requests_per_minute": 2})
    client = server.client()
    for _ in range(2):
        client.models.list()
    with pytest.raises(openai.RateLimitError) as caught:
        client.models.list()
    assert 0 < int(caught.value.response.headers["retry-after"]) <= 30
    assert caught.value.code == "rate_limit_exceeded"
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_a_turn_is_paid_for(start: Start) -> None:
    server = start(limits={"tokens_per_minute": 12})
    server.client().responses.create(model="macaron", input="hi")
    server.until(lambda: server.service.ends())
    with pytest.raises(openai.RateLimitError):
        server.client().responses.create(model="macaron", input="hi")


def post(server: Running, path: str, content: Any, **headers: str) -> httpx.Response:
    return httpx.post(server.url + path, content=content, headers={**JSON, **headers})


@pytest.mark.parametrize("path", PATHS)
def test_a_long_body_is_refused(start: Start, path: str) -> None:
    server = start(limits={"body": 1000})
    assert post(server, path, b"x" * 1001).status_code == 413
    found = post(server, path, iter([b"x" * 100] * 11))
    assert found.status_code == 413 and found.json()["error"]["code"] == "body_too_long"
    assert post(server, path, b"x" * 1000).status_code == 400


def test_an_endless_body_is_cut_off(start: Start) -> None:
    server = start(limits={"body": 10_000})
    client = raw.connect(server.port)
    head = "POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
    client.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode())
    sent = 0
    try:
        while sent < 1 << 26:
            client.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
            sent += 4096
    except OSError:
        pass
    assert sent < 1 << 26
    assert server.service.requests == []


def test_a_lying_length_is_no_way_around(start: Start) -> None:
    server = start(limits={"body": 1000})
    for length in ("99999999999999999999", "-1", "abc"):
        client = raw.connect(server.port)
        client.sendall(raw.request("/v1/responses", {}, Content_Length=length))
        assert raw.until(client, b"\r\n").split()[1] in (b"400", b"413")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"null", "invalid_value"),
        (b"[]", "invalid_value"),
        (b'"x"', "invalid_value"),
        (b"NaN", "invalid_json"),
        (b"\xff\xfe{}", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "too_deep"),
        (b'{"metadata": 1e999}', None),
        (b'{"seed": ' + b"9" * 5000 + b"}", None),
        (zlib.compress(b" " * 100_000), "invalid_json"),
    ],
)
def test_odd_bodies_are_refused(server: Running, path: str, body: bytes, code: str | None) -> None:
    found = post(server, path, body)
    error = found.json()["error"]
    assert found.status_code == 400 and error["code"] == (code or error["code"])
    assert "\n" not in error["message"] and len(error["message"]) < 500


def test_a_body_has_to_be_said_to_be_json(server: Running) -> None:
    """A form of another site can send the others without asking."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        found = httpx.post(
            f"{server.url}/v1/responses",
            content=json.dumps({"model": "macaron", "input": "x"}),
            headers={"content-type": kind},
        )
        assert found.status_code == 415, kind


def test_the_most_of_everything_can_be_set(start: Start) -> None:
    server = start(limits={"n": 1, "tools": 1, "messages": 2, "max_tokens": 5, "depth": 5})
    tool = {"type": "function", "function": {"name": "a"}}
    other = {"type": "function", "function": {"name": "b"}}
    user = {"role": "user", "content": "x"}

    def ask(**more: Any) -> Any:
        body = {"model": "macaron", "messages": [user], **more}
        return server.client().chat.completions.create(**body)

    ask(n=1, tools=[tool], messages=[user, user], max_tokens=5)
    deep = {"type": "function", "function": {"name": "a", "parameters": {"properties": {}}}}
    for more in (
        {"n": 2},
        {"tools": [tool, other]},
        {"messages": [user] * 3},
        {"max_tokens": 6},
        {"tools": [deep]},
    ):
        with pytest.raises(openai.BadRequestError):
            ask(**more)
    many = [{"role": "user", "content": "x"}] * 3
    with pytest.raises(openai.BadRequestError, match="at most 2"):
        server.client().responses.create(model="macaron", input=many)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1:8000"])
def test_a_name_that_was_made_to_point_here_is_refused(server: Running, host: str) -> None:
    for path in ("/health", "/v1/models", "/metrics", "/", "/openapi.json"):
        found = httpx.get(server.url + path, headers={"host": host})
        assert found.status_code == 403, path


def test_a_name_of_the_operators_is_taken(start: Start) -> None:
    server = start(hosts=["macaron.example"])
    for host in ("macaron.example", "MACARON.example:443", "localhost", "127.0.0.1:9", "[::1]:9"):
        assert httpx.get(f"{server.url}/health", headers={"host": host}).status_code == 200


def test_other_origins_are_refused(server: Running) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "file://"):
        found = httpx.get(f"{server.url}/v1/models", headers={"origin": origin})
        assert found.status_code == 403, origin
        assert "access-control-allow-origin" not in found.headers
    own = httpx.get(f"{server.url}/v1/models", headers={"origin": server.url})
    assert own.status_code == 200 and "access-control-allow-origin" not in own.headers
    asked = httpx.options(f"{server.url}/v1/responses", headers={"origin": "http://evil.example"})
    assert asked.status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/metrics", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/nothing", 404),
        ("PUT", "/v1/responses", 405),
        ("POST", "/v1/responses", 415),
    ],
)
def test_every_answer_is_guarded(server: Running, method: str, path: str, status: int) -> None:
    found = httpx.request(method, server.url + path)
    assert found.status_code == status
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["content-security-policy"].startswith("default-src 'none'")
    assert found.headers["x-request-id"].startswith("req_")
    assert "text/html" not in found.headers["content-type"]
    if status >= 400:
        assert set(found.json()["error"]) == {"message", "type", "param", "code"}
    if status == 405:
        assert "POST" in found.headers["allow"]


def test_what_a_model_wrote_is_never_a_page(server: Running) -> None:
    text = "say:<script>alert(1)</script>"
    for stream in (False, True):
        body = {"model": "macaron", "input": text, "stream": stream}
        found = httpx.post(f"{server.url}/v1/responses", json=body)
        kind = found.headers["content-type"]
        assert kind.startswith("text/event-stream" if stream else "application/json")
        assert found.headers["x-content-type-options"] == "nosniff"
    server.until(lambda: len(server.service.turns) == 2)
    found = httpx.get(f"{server.url}/v1/responses/resp_0001", headers={"accept": "text/html"})
    assert found.headers["content-type"] == "application/json"


def test_a_client_that_leaves_in_its_body_is_no_fault(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    client = raw.connect(server.port)
    client.sendall(raw.request("/v1/responses", {"model": "macaron"}, Content_Length="1000"))
    client.shutdown(socket.SHUT_WR)
    server.until(lambda: b'route="/v1/responses",status="0"' in server.metrics.text())
    assert not [r for r in caplog.records if r.levelname == "ERROR"]
