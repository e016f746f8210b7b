"""API keys: the file, the command line, and what a server makes of them."""

import json
import stat
from pathlib import Path

import httpx
import openai
import pytest

from macaron.errors import ConfigError
from macaron.serve.http.app import create_app
from macaron.serve.http.gate import is_loopback
from macaron.serve.http.keys import KeyFile
from macaron.serve.http.metrics import Metrics
from macaron.serving import ServeConfig
from tests.serve.conftest import Start
from tests.serve.scripted import ScriptedService


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "serve" / "keys.json")


def test_a_key_is_found_by_itself_only(keys: KeyFile) -> None:
    token = keys.add("anna", ["chat"])
    found = keys.find(token)
    assert found is not None and (found.name, found.scopes) == ("anna", ("chat",))
    for other in (token[:-1], token + "x", token[:-1] + "!", token.swapcase(), "", "mac_"):
        assert keys.find(other) is None
    assert keys.find(keys.add("ben", ["chat"])[:17] + token[17:]) is None


def test_a_file_tells_nobody_the_keys(keys: KeyFile) -> None:
    token = keys.add("anna", ["chat"])
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert token.rsplit("_", 1)[1] not in keys.path.read_text()
    keys.add("ben", ["chat"])
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_what_another_process_does_is_seen(keys: KeyFile) -> None:
    other = KeyFile(keys.path)
    assert not keys.needed() and keys.keys() == {}
    token = other.add("anna", ["chat"])
    assert keys.find(token) is not None
    assert other.revoke("anna").name == "anna"
    assert keys.find(token) is None and keys.needed()


def test_a_key_ends_when_it_expires(keys: KeyFile) -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime.now(UTC)
    assert keys.find(keys.add("late", ["chat"], now - timedelta(seconds=1))) is None
    assert keys.find(keys.add("early", ["chat"], now + timedelta(hours=1))) is not None


@pytest.mark.parametrize("text", ["", "[]", '{"keys": [{"id": 1}]}', "\ufeffx"])
def test_a_broken_file_is_one_line(keys: KeyFile, text: str) -> None:
    keys.path.parent.mkdir()
    keys.path.write_text(text)
    with pytest.raises(ConfigError, match="is no file of API keys"):
        keys.keys()


def test_revoking_names_one_key(keys: KeyFile) -> None:
    for _ in range(2):
        keys.add("twin", ["chat"])
    with pytest.raises(ConfigError, match="several"):
        keys.revoke("twin")
    with pytest.raises(ConfigError, match="no such key"):
        keys.revoke("nobody")
    keys.revoke(next(iter(keys.keys())))
    assert len(keys.keys()) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "macaron.example"])
def test_nobody_else_can_reach_a_server_without_keys(keys: KeyFile, host: str) -> None:
    def make() -> object:
        return create_app(ScriptedService(), ServeConfig(host=host), keys, Metrics())

    with pytest.raises(ConfigError, match=r"serve\.host: .* no API key"):
        make()
    token = keys.add("anna", ["chat"])
    assert make() and keys.find(token)
    keys.revoke("anna")
    with pytest.raises(ConfigError):
        make()


def test_which_addresses_are_of_this_machine() -> None:
    for host in ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"):
        assert is_loopback(host)
    for host in ("0.0.0.0", "", "127.0.0.1.example", "localhost.example", "::"):
        assert not is_loopback(host)


def test_with_keys_every_request_needs_one(start: Start) -> None:
    server = start()
    key = server.keys.add("anna", ["chat", "feedback"])
    with pytest.raises(openai.AuthenticationError) as caught:
        server.client("wrong").models.list()
    assert caught.value.code == "invalid_api_key"
    assert caught.value.response.headers["www-authenticate"] == "Bearer"
    server.client(key).responses.create(model="macaron", input="hi")
    assert server.service.requests[0].key == next(iter(server.keys.keys()))
    server.keys.revoke("anna")
    with pytest.raises(openai.AuthenticationError):
        server.client(key).models.list()
    assert httpx.get(f"{server.url}/health").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/v1/chat/completions", "chat"),
        ("POST", "/v1/responses", "chat"),
        ("GET", "/v1/responses/x", "chat"),
        ("DELETE", "/v1/responses/x", "chat"),
        ("GET", "/v1/models", "chat"),
        ("GET", "/v1/models/macaron", "chat"),
        ("POST", "/v1/feedback", "feedback"),
    ],
)
def test_a_key_does_what_its_scopes_say(start: Start, method: str, path: str, scope: str) -> None:
    server = start()
    statuses = {}
    for one in ("chat", "feedback", "admin"):
        headers = {"authorization": f"Bearer {server.keys.add(one, [one])}"}
        statuses[one] = httpx.request(method, server.url + path, headers=headers).status_code
    assert {one for one, status in statuses.items() if status != 403} == {scope}
    assert httpx.request(method, server.url + path).status_code == 401


def test_turns_belong_to_their_key(start: Start) -> None:
    server = start()
    anna, ben = (server.client(server.keys.add(who, ["chat"])) for who in ("anna", "ben"))
    made = anna.responses.create(model="macaron", input="hi")
    server.until(lambda: server.service.ends() == ["delivered"])
    assert anna.responses.retrieve(made.id).id == made.id
    with pytest.raises(openai.NotFoundError):
        ben.responses.retrieve(made.id)
    with pytest.raises(openai.NotFoundError):
        ben.responses.create(model="macaron", input="go on", previous_response_id=made.id)


def test_metrics_are_for_this_machine_and_admins(start: Start) -> None:
    server = start()
    url, token = f"{server.url}/metrics", server.keys.add("ops", ["admin"])
    assert httpx.get(url).status_code == 200
    passed_on = {"x-forwarded-for": "10.1.2.3"}
    assert httpx.get(url, headers=passed_on).status_code == 401
    admin = {**passed_on, "authorization": f"Bearer {token}"}
    assert httpx.get(url, headers=admin).status_code == 200
    chat = {**passed_on, "authorization": f"Bearer {server.keys.add('anna', ['chat'])}"}
    assert httpx.get(url, headers=chat).status_code == 403


def test_keys_are_never_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "macaron.serve")
    server = start()
    key = server.keys.add("anna", ["chat"])
    server.client(key).responses.create(model="macaron", input="a private matter", user="u-77")
    server.until(lambda: "delivered" in caplog.text)
    for secret in (key.rsplit("_", 1)[1], "private", "u-77"):
        assert secret not in caplog.text
    line = json.loads(next(r.message for r in caplog.records if r.name == "macaron.serve.access"))
    assert line["route"] == "/v1/responses" and line["status"] == 200
    assert (line["specialist"], line["why"], line["pair"]) == ("coding", "routed", "a1b2c3d4")
    assert line["end"] == "delivered" and line["key"] == next(iter(server.keys.keys()))
    assert line["turn"] == "resp_0001" and line["ms"] > 0 and line["completion_tokens"] == 5
