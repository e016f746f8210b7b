"""MCP servers as sources of tools, through the official SDK.

Of what a server has, only the tools that the HCP lists are handed on. A server that dies while it
is used is a fault that the model reads; it is started or reached again at the next call. Sessions
that share the servers share what those remember.
"""

import asyncio
import threading
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from macaron.harness.mcp_link import Link
from macaron.harness.tools import Tool
from macaron.hcp.document import HCP

Result = TypeVar("Result")
PREFIX = "mcp:"


class McpServers:
    """The HCP's servers that some listed tool comes from. Use as a context manager, or `close`."""

    def __init__(self, hcp: HCP) -> None:
        """
        Raises:
            ConfigError: a server can't be started or reached, or doesn't answer.
        """
        self._wanted = {
            name: tool.source.removeprefix(PREFIX)
            for name, tool in hcp.tools.items()
            if tool.source.startswith(PREFIX)
        }
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True)
        self._thread.start()
        self._links = {
            name: Link(name, hcp.mcp[name]) for name in dict.fromkeys(self._wanted.values())
        }
        try:
            self._schemas = self._wait(self._all_schemas())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "McpServers":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def sources(self) -> dict[str, list[Tool]]:
        """`mcp:<server>` -> the listed tools that it has, for a session's sources."""
        return {
            PREFIX + server: [
                Tool(name, *self._schemas[server][name], partial(self._call, server, name))
                for name, source in self._wanted.items()
                if source == server and name in self._schemas[server]
            ]
            for server in self._links
        }

    def close(self) -> None:
        """Ends the connections, and the processes of stdio servers."""
        if self._loop.is_closed():
            return
        self._wait(self._close_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        return self._wait(self._links[server].call(tool, arguments))

    async def _all_schemas(self) -> dict[str, dict[str, tuple[str, dict[str, Any]]]]:
        found = await asyncio.gather(*(link.schemas() for link in self._links.values()))
        return dict(zip(self._links, found, strict=True))

    async def _close_all(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
