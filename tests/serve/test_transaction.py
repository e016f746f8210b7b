"""A turn is delivered when its last byte went out, and withdrawn in every other case."""

import socket
from collections.abc import Callable

import httpx
import openai
import pytest

from tests.serve import raw
from tests.serve.conftest import Running, Start

Leave = Callable[[socket.socket], None]


@pytest.mark.parametrize("leave", [socket.socket.close, raw.reset])
def test_a_client_that_leaves_a_stream_ends_the_turn(server: Running, leave: Leave) -> None:
    client = raw.connect(server.port)
    client.sendall(raw.chat("say:one;sleep:60;say:two", True))
    assert b"one" in raw.until(client, b'"one"')
    leave(client)
    server.until(lambda: server.service.ends())
    assert [what for what, _ in server.service.log] == ["closed", "withdrawn"]
    assert server.service.turns == {}


def test_a_client_that_leaves_before_the_first_piece_ends_the_turn(server: Running) -> None:
    for stream in (False, True):
        client = raw.connect(server.port)
        client.sendall(raw.chat("sleep:60", stream))
        server.until(lambda n=stream + 1: len(server.service.requests) == n)
        client.close()
        server.until(lambda n=stream + 1: server.service.ends() == ["withdrawn"] * n)
    assert ("closed", "chatcmpl_0002") in server.service.log


def test_a_client_that_leaves_while_the_turn_begins_leaves_nothing(server: Running) -> None:
    client = raw.connect(server.port)
    client.sendall(raw.chat("begin-sleep", False))
    server.until(lambda: server.service.requests)
    client.close()
    server.until(lambda: b'status="0"' in server.metrics.text())
    assert server.service.log == []


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_reads_slowly_gets_all(server: Running, stream: bool) -> None:
    client = raw.connect(server.port, buffer=4096)
    client.sendall(raw.chat("big:3000", stream))
    got = raw.until(client, b"[DONE]" if stream else b'"macaron":{"route_tokens"')
    assert got.count(b"x") >= 3000 * 1024
    server.until(lambda: server.service.ends() == ["delivered"])


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_before_the_last_bytes_has_nothing(
    server: Running, stream: bool
) -> None:
    """Nothing fits: the answer is larger than all buffers on its way."""
    client = raw.connect(server.port, buffer=4096)
    client.sendall(raw.chat("big:20000", stream))
    raw.until(client, b"xxxx")
    raw.reset(client)
    server.until(lambda: server.service.ends() == ["withdrawn"])


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_reads_nothing_runs_into_the_time_limit(start: Start, stream: bool) -> None:
    server = start(limits={"turn_s": 1})
    client = raw.connect(server.port, buffer=4096)
    client.sendall(raw.chat("big:20000", stream))
    server.until(lambda: server.service.ends() == ["withdrawn"])
    client.close()


def test_a_turn_over_the_time_limit_is_withdrawn_and_told(start: Start) -> None:
    server = start(limits={"turn_s": 0.2})
    client = server.client()
    with pytest.raises(openai.InternalServerError) as caught:
        client.responses.create(model="macaron", input="sleep:60")
    assert caught.value.status_code == 504 and caught.value.code == "timeout"
    with pytest.raises(openai.APIError, match=r"longer than 0\.2 s") as broken:
        list(client.responses.create(model="macaron", input="say:a;sleep:60", stream=True))
    assert broken.value.code == "timeout"
    assert server.service.ends() == ["withdrawn", "withdrawn"]


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("fail:context", 400, "context_length_exceeded"),
        ("fail:turns", 400, "turn_limit_exceeded"),
        ("fail:time", 504, "timeout"),
        ("fail:sandbox", 503, "turn_failed"),
        ("fail:tool", 503, "turn_failed"),
        ("raise:busy", 429, "busy"),
        ("raise:config", 400, "invalid_request"),
        ("raise:engine", 503, "engine"),
        ("raise:bug", 500, "internal_error"),
        ("begin:busy", 429, "busy"),
        ("begin:config", 400, "invalid_request"),
        ("begin:storage", 503, "storage"),
        ("begin:bug", 500, "internal_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_before_the_first_piece_has_its_own_status(
    server: Running, text: str, status: int, code: str, stream: bool
) -> None:
    body = {"model": "macaron", "input": text, "stream": stream}
    found = httpx.post(f"{server.url}/v1/responses", json=body)
    error = found.json()["error"]
    assert (found.status_code, error["code"]) == (status, code)
    for secret in ("secret", "10.0.0.7", "Traceback"):
        assert secret not in found.text
    assert (status == 429) == ("retry-after" in found.headers)
    withdrawn = [] if text.startswith("begin") else ["withdrawn"]
    assert server.service.ends() == withdrawn
    if status == 500:
        assert found.headers["x-request-id"] in error["message"]


def test_a_fault_in_a_stream_is_an_event(server: Running) -> None:
    client, text = server.client(), "say:a;raise:bug"
    pieces = []
    with pytest.raises(openai.APIError, match="req_"):
        for chunk in client.chat.completions.create(
            model="macaron", messages=[{"role": "user", "content": text}], stream=True
        ):
            pieces.append(chunk.choices[0].delta.content)
    assert pieces == ["", "a"]
    kinds = []
    with pytest.raises(openai.APIError, match="req_") as caught:
        for event in client.responses.create(model="macaron", input=text, stream=True):
            kinds.append(event.type)
    assert kinds[-1] == "response.failed" and caught.value.code == "internal_error"
    assert server.service.ends() == ["withdrawn", "withdrawn"]


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_written_down_is_not_delivered(server: Running, stream: bool) -> None:
    server.service.full = True
    with pytest.raises(openai.APIError) as caught:
        list(server.client().responses.create(model="macaron", input="say:a", stream=stream))
    assert caught.value.code == "storage"
    assert [what for what, _ in server.service.log] == ["offered", "withdrawn"]


def test_the_turn_is_written_down_before_the_last_byte_goes_out(server: Running) -> None:
    seen = []
    for chunk in server.client().chat.completions.create(
        model="macaron",
        messages=[{"role": "user", "content": "say:a;sleep:0.05;say:b"}],
        stream=True,
    ):
        seen.append((chunk.choices[0].finish_reason, [what for what, _ in server.service.log]))
    assert (None, []) in seen
    assert seen[-1][0] == "stop" and seen[-1][1][0] == "offered"


def test_a_silent_stream_is_kept_alive(start: Start) -> None:
    server = start(keep_alive_s=0.05)
    client = raw.connect(server.port)
    client.sendall(raw.chat("sleep:0.3;say:a", True))
    got = raw.until(client, b"[DONE]")
    assert got.count(b": keep-alive\n\n") >= 2 and got.index(b"role") < got.index(b": keep")
    assert (
        server.client().responses.create(model="macaron", input="sleep:0.1;say:a").output_text
        == "a"
    )


def test_requests_in_one_connection_are_answered_in_turn(server: Running) -> None:
    client = raw.connect(server.port)
    client.sendall(raw.chat("say:a|b", True) + raw.chat("say:c", False))
    assert b'"content":"c"' in raw.until(client, b'"content":"c"')
    server.until(lambda: server.service.ends() == ["delivered"] * 2)
