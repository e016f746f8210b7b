"""One connection to an MCP server, kept open by a task of its own; opened again after it is lost.

Everything in here runs in the event loop of `macaron.harness.mcp`.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from typing import Any

from macaron.errors import ConfigError
from macaron.harness.tools import ToolFault
from macaron.hcp.schema import McpConfig

ALWAYS = ("PATH",)
"""Variables that a program needs to start at all."""
_PAGES = 100


class Link:
    """A server of the HCP."""

    def __init__(self, name: str, config: McpConfig) -> None:
        self.name, self.config = name, config
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._done = asyncio.Event()

    async def schemas(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Description and JSON Schema of each tool that the server has.

        Raises:
            ConfigError: it can't be started or reached, or doesn't answer.
        """
        if self.config.command:
            program(self.name, self.config)
        try:
            async with asyncio.timeout(self.config.timeout_s):
                client = await self._connected()
                return {t.name: (t.description or "", t.input_schema) async for t in _tools(client)}
        except Exception as error:
            raise self._config_error(_said(error)) from error

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The tool's value: its structured content, or else its text.

        Raises:
            ToolFault: the tool says no (`failed`), or the server is gone or silent (`dead`).
        """
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        try:
            async with asyncio.timeout(self.config.timeout_s):
                client = await self._connected()
                result = await client.call_tool(tool, dict(arguments))
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                raise await self._dead(error) from error
            raise ToolFault(f"{tool}: {error}") from error
        except Exception as error:
            raise await self._dead(error) from error
        return _value(tool, result)

    async def close(self) -> None:
        """Ends the connection; a stdio server's process goes with it."""
        self._done.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._client = self._task = None

    async def _connected(self) -> Any:
        async with self._lock:
            if self._client is None:
                ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self._done = asyncio.Event()
                self._task = asyncio.create_task(self._keep(ready, self._done))
                try:
                    self._client = await ready
                except asyncio.CancelledError:
                    self._task.cancel()
                    raise
            return self._client

    async def _keep(self, ready: "asyncio.Future[Any]", done: asyncio.Event) -> None:
        """Opens the connection, and closes it in the same task, as the SDK wants it."""
        try:
            async with self._open() as client:
                if not ready.done():
                    ready.set_result(client)
                    await done.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(ConnectionError(_said(error)))

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[Any]:
        from mcp import Client, StdioServerParameters, stdio_client

        if self.config.url:
            async with Client(self.config.url) as client:
                yield client
            return
        command, *arguments = program(self.name, self.config)
        environment = {name: os.environ[name] for name in self.config.env}
        parameters = StdioServerParameters(command=command, args=arguments, env=environment)
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            try:
                async with Client(stdio_client(parameters, errlog=log)) as client:
                    yield client
            except Exception as error:
                raise OSError(_last_line(log) or _said(error)) from error

    async def _dead(self, error: Exception) -> ToolFault:
        """Forgets the connection, so that the next call opens it anew."""
        async with self._lock:
            self._done.set()
            self._client = None
        if isinstance(error, TimeoutError):
            return ToolFault(f"{self.name} gave no answer in {self.config.timeout_s:g} s", "dead")
        return ToolFault(f"{self.name} is gone: {_said(error)}", "dead")

    def _config_error(self, what: str) -> ConfigError:
        return ConfigError(
            f"the server can't be used: {what}",
            where=f"mcp.{self.name}",
            mend="check its command or url, and that it runs",
        )


def program(name: str, config: McpConfig) -> list[str]:
    """The command of a stdio server, in an environment of the named variables and PATH alone.

    Raises:
        ConfigError: there is no such program, or a named variable is not set.
    """
    from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

    unset = [variable for variable in config.env if variable not in os.environ]
    if unset:
        raise ConfigError(
            f"{', '.join(unset)} is not set here", where=f"mcp.{name}.env", mend="set it"
        )
    found = shutil.which(config.command[0])
    if found is None:
        raise ConfigError(
            f"no program {config.command[0]!r}", where=f"mcp.{name}.command", mend="install it"
        )
    # The SDK passes more variables on than were named.
    unnamed = [v for v in DEFAULT_INHERITED_ENV_VARS if v not in (*config.env, *ALWAYS)]
    without = [part for variable in unnamed for part in ("-u", variable)]
    return ["env", *without, found, *config.command[1:]]


async def _tools(client: Any) -> AsyncIterator[Any]:
    cursor = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield tool
        cursor = page.next_cursor
        if not cursor:
            return


def _value(tool: str, result: Any) -> Any:
    text = "\n".join(getattr(part, "text", f"[{part.type}]") for part in result.content)
    if result.is_error:
        raise ToolFault(text or f"{tool}: it failed")
    structured = result.structured_content
    if structured is None:
        return text
    # Servers wrap what is no object of its own.
    wrapped = isinstance(structured, dict) and structured.keys() == {"result"}
    return structured["result"] if wrapped else structured


def _said(error: BaseException) -> str:
    """What the innermost of nested errors says, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it gave no answer in time"
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def _last_line(log: Any) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
