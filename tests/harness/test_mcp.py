"""MCP servers: the SDK's own as a process, over stdio and HTTP, and one from a package."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from macaron.errors import ConfigError
from macaron.harness.allowlist import tool_box
from macaron.harness.mcp import McpServers
from macaron.harness.session import Session
from macaron.harness.tools import ToolFault
from macaron.hcp.document import HCP
from tests.harness.play import ADD, call, harness, play, user
from tests.project import HOUSE

COMMAND = [sys.executable, "-m", "tests.harness.mcp_server"]
ANY = {"type": "object"}
TEXT = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}
SCHEMAS: dict[str, Any] = {
    "add": ADD, "order": TEXT, "tally": ANY, "environment": ANY, "wait": SECONDS, "die": ANY,
}  # fmt: skip


def document(server: dict[str, Any], *names: str, **schemas: Any) -> HCP:
    """A harness with these tools of one server."""
    tools = {
        name: {
            "description": f"{name}.",
            "parameters": schemas.get(name, SCHEMAS.get(name, ANY)),
            "source": "mcp:tests",
        }
        for name in names
    }
    return harness({"mcp": {"tests": server}, "tools": tools}, tools=list(names))


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server's module is found, as it is given no PYTHONPATH."""
    monkeypatch.chdir(HOUSE)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([*COMMAND, str(port)], cwd=HOUSE, stderr=subprocess.DEVNULL) as process:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


def box(hcp: HCP, servers: McpServers) -> Any:
    return tool_box(hcp, "L1", servers.sources())


def test_a_stdio_servers_tools_are_called_in_a_session(chatml: Any) -> None:
    hcp = document({"command": COMMAND}, "add", "order", "tally")
    with McpServers(hcp) as servers:
        session = Session(chatml, hcp, servers.sources())
        responses = [
            call("add", '{"a": 2, "b": 3}') + call("order", '{"id": "x"}'),
            call("order", '{"id": "y"}') + call("tally", "{}") + call("tally", "{}"),
            "So.",
        ]
        turn, requests = play(session, chatml, [user("Go")], responses)
    texts = [m["content"] for m in turn.messages if m["role"] == "tool"]
    assert texts[:2] == ["5", '{"id": "x", "open": true}']
    assert texts[2].startswith("Error: ") and "there is no y" in texts[2]
    assert texts[3:] == ["1", "2"], "it is one server over the calls"
    assert turn.faults == {"failed": 1}
    assert "environment" not in chatml.decode(requests[0].prompt), "it was not listed"


@pytest.mark.full
def test_only_listed_tools_are_handed_on() -> None:
    hcp = document({"command": COMMAND}, "add")
    with McpServers(hcp) as servers:
        assert [tool.name for tool in servers.sources()["mcp:tests"]] == ["add"]


@pytest.mark.full
def test_a_server_is_given_the_named_variables_and_path_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMED", "1")
    monkeypatch.setenv("SECRET", "2")
    monkeypatch.setenv("HOME", "/root")
    hcp = document({"command": COMMAND, "env": ["NAMED"]}, "environment")
    with McpServers(hcp) as servers:
        names = set(box(hcp, servers).run("environment", {}).split(","))
    assert names - {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"} == {"NAMED", "PATH"}


def test_what_a_server_needs_and_is_not_here_is_one_line() -> None:
    with pytest.raises(
        ConfigError, match=r"^mcp\.tests\.env: NOWHERE_SET is not set here \(set it"
    ):
        McpServers(document({"command": COMMAND, "env": ["NOWHERE_SET"]}, "add"))
    with pytest.raises(ConfigError, match=r"^mcp\.tests\.command: no program 'no-such-program'"):
        McpServers(document({"command": ["no-such-program"]}, "add"))


@pytest.mark.full
def test_a_server_that_dies_is_the_models_to_read_and_begins_anew(chatml: Any) -> None:
    hcp = document({"command": COMMAND}, "die", "tally")
    with McpServers(hcp) as servers:
        session = Session(chatml, hcp, servers.sources())
        tally = call("tally", "{}")
        turn, _ = play(session, chatml, [user("Go")], [tally, call("die", "{}"), tally, "So."])
    texts = [m["content"] for m in turn.messages if m["role"] == "tool"]
    assert texts[0] == texts[2] == "1"
    assert texts[1].startswith("Error: tests is gone")
    assert turn.stop_reason == "answer" and turn.faults == {"dead": 1}


@pytest.mark.full
def test_a_server_that_is_silent_is_left_after_its_time() -> None:
    hcp = document({"command": COMMAND, "timeout_s": 2.0}, "wait", "add")
    with McpServers(hcp) as servers:
        with pytest.raises(ToolFault, match="no answer in 2 s") as caught:
            box(hcp, servers).run("wait", {"seconds": 60})
        assert caught.value.kind == "dead"


@pytest.mark.full
def test_an_http_server_is_the_same(url: str) -> None:
    hcp = document({"url": url}, "add", "order")
    with McpServers(hcp) as servers:
        tools = box(hcp, servers)
        assert tools.run("add", {"a": 2, "b": 3}) == 5
        assert tools.run("order", {"id": "x"}) == {"id": "x", "open": True}
        with pytest.raises(ToolFault, match="there is no y"):
            tools.run("order", {"id": "y"})


@pytest.mark.full
def test_an_http_server_that_dies_is_a_fault(url: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([*COMMAND, str(port)], cwd=HOUSE, stderr=subprocess.DEVNULL) as process:
        hcp = document({"url": f"http://127.0.0.1:{port}/mcp", "timeout_s": 20.0}, "add")
        servers = _when_up(hcp)
        process.kill()
        process.wait()
        with servers, pytest.raises(ToolFault) as caught:
            box(hcp, servers).run("add", {"a": 2, "b": 3})
    assert caught.value.kind == "dead"


def _when_up(hcp: HCP) -> McpServers:
    for _ in range(100):
        try:
            return McpServers(hcp)
        except ConfigError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


@pytest.mark.full
@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"command": [sys.executable, "-c", "raise SystemExit('out of order')"]}, "out of order"),
        ({"command": [sys.executable, "-c", "import time; time.sleep(60)"], "timeout_s": 1.0},
         "no answer in time"),
        ({"url": "http://127.0.0.1:9/mcp"}, "can't be used"),
    ],
)  # fmt: skip
def test_a_server_that_does_not_start_is_one_line(server: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        McpServers(document(server, "add"))
    text = str(caught.value)
    assert text.startswith("mcp.tests") and said in text and "\n" not in text


@pytest.mark.full
def test_a_listed_tool_that_the_server_lacks_is_one_line() -> None:
    hcp = document({"command": COMMAND}, "add", "subtract")
    with McpServers(hcp) as servers, pytest.raises(ConfigError, match="subtract should come from"):
        box(hcp, servers)


@pytest.mark.full
def test_a_signature_that_differs_is_one_line() -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    hcp = document({"command": COMMAND}, "add", add={**wrong, "required": ["a", "b"]})
    with McpServers(hcp) as servers, pytest.raises(ConfigError, match="takes a as integer"):
        box(hcp, servers)


def test_no_server_is_started_for_tools_that_are_not_listed() -> None:
    hcp = harness({"mcp": {"tests": {"command": ["no-such-program"]}}})
    with McpServers(hcp) as servers:
        assert servers.sources() == {}


@pytest.mark.full
def test_a_published_server_tells_the_time() -> None:
    schema = {
        "type": "object",
        "properties": {
            "source_timezone": {"type": "string"},
            "time": {"type": "string"},
            "target_timezone": {"type": "string"},
        },
        "required": ["source_timezone", "time", "target_timezone"],
    }
    server = {"command": [sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]}
    hcp = document(server, "convert_time", convert_time=schema)
    asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kolkata"}
    with McpServers(hcp) as servers:
        tools = box(hcp, servers)
        assert "17:30" in str(tools.run("convert_time", asked))
        with pytest.raises(ToolFault, match=r"(?i)timezone"):
            tools.run("convert_time", {**asked, "target_timezone": "Nowhere"})


@pytest.mark.full
def test_closing_ends_the_servers_process() -> None:
    hcp = document({"command": COMMAND}, "add")
    before = _children()
    servers = McpServers(hcp)
    assert _children() - before
    servers.close()
    servers.close()
    assert _children() == before


def _children() -> set[int]:
    import psutil

    return {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}
