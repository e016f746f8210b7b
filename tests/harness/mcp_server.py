"""A server on the SDK's own classes: `python -m tests.harness.mcp_server [PORT]`, or stdio."""

import os
import sys
import time

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("tests")
count = 0


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
def order(id: str) -> dict[str, str | bool]:
    """An order."""
    if id != "x":
        raise ToolError(f"there is no {id}")
    return {"id": id, "open": True}


@server.tool()
def tally() -> int:
    """How often this was called."""
    global count
    count += 1
    return count


@server.tool()
def environment() -> str:
    """The server's variables."""
    return ",".join(sorted(os.environ))


@server.tool()
def wait(seconds: float) -> str:
    """Waits."""
    time.sleep(seconds)
    return "done"


@server.tool()
def die() -> str:
    """Ends the server."""
    os._exit(3)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
