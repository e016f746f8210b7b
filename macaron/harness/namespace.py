"""One session's Python namespace: it lasts over the turns, in a sandboxed process of its own.

Only what a cell prints comes back. Whatever a cell does, the namespace is afterwards either as the
cell left it (`ok`, `error`) or as it was before (every other outcome), variables and files alike.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from macaron.errors import ConfigError
from macaron.harness.namespace_limits import NamespaceLimits, WorkspaceLimits
from macaron.harness.namespace_link import Gone, Link
from macaron.harness.namespace_server import START_S, NamespaceServer, shared_server
from macaron.harness.sandbox.jobs import Outcome, SandboxError
from macaron.harness.sandbox.level import check_level

__all__ = ["Cell", "Namespace", "NamespaceLimits", "WorkspaceLimits"]

Function = Callable[[dict[str, Any]], Any]
OUTCOMES = ("ok", "error", "timeout", "memory", "killed", "output")


@dataclass(frozen=True)
class Cell:
    """What became of a cell or a shell command."""

    outcome: Outcome
    printed: str = ""
    """What it printed, and the value of a last line that is an expression."""
    error: str = ""
    """The exception with the cell's own lines that led to it, or why the cell was ended."""
    cut: bool = False
    """Whether more was printed; the text then ends with a notice."""
    cpu_s: float = 0.0
    """Processor time, seconds."""


class Namespace:
    """One session's namespace. Use as a context manager, or call `close`.

    Args:
        limits: what the session may use; the HCP's workspace fits.
        seed: seeds `random` in the session, so that equal sessions draw the same.
        server: another than this process's own.

    Raises:
        ConfigError: the limits ask for the network, or for isolation that is not active here.
        SandboxError: this host cannot run sessions.
    """

    def __init__(
        self,
        limits: WorkspaceLimits | None = None,
        *,
        seed: int = 0,
        server: NamespaceServer | None = None,
    ) -> None:
        self.limits = NamespaceLimits() if limits is None else NamespaceLimits.of(limits)
        if self.limits.network:
            raise ConfigError(
                "the sandbox has no network",
                where="workspace.network",
                mend="set it to false, and give the session tools for what it needs",
            )
        self.seed = seed
        self._server = server or shared_server()
        check_level(self.limits.level, self._server.level, "workspace.level")
        self._snapshot = False
        self._link: Link | None = self._open()

    def __enter__(self) -> "Namespace":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def level(self) -> tuple[str, ...]:
        """Names of the isolation that is active around this session."""
        return self._server.level

    def run(
        self, code: str, tools: Mapping[str, Function] | None = None, *, chars: int | None = None
    ) -> Cell:
        """Runs a cell.

        Args:
            code: Python; the value of a last line that is an expression is printed.
            tools: functions of the namespace that run here, on the host. Each takes an object of
                JSON values and returns one; what it raises that has a `text` becomes a ToolError
                in the cell. One with `parameters` (a JSON Schema) takes values by position too.
            chars: of printed text; `limits.output_chars` by default.

        Raises:
            SandboxError: this host cannot run sessions any more.
            Exception: what a tool raised that is a fault of ours; the cell is undone.
        """
        given = tools or {}
        order = {
            "code": code,
            "tools": {name: _parameters(tool) for name, tool in given.items()},
            "chars": self.limits.output_chars if chars is None else chars,
            "seed": self.seed,
        }
        body = json.dumps(order).encode()
        most = self.limits.message_kib << 10
        if len(body) > most:
            return Cell("error", error=f"a cell of {len(body)} bytes; {most} are allowed")
        return self._guarded(lambda link: self._run(link, body, given))

    def shell(self, command: str, *, chars: int | None = None) -> Cell:
        """Runs a shell command on the session's files; `error` where its status is not 0.

        May be called by a tool while a cell waits for it. Where the host allows no namespaces
        with mounts there is no shell, and its error says so.
        """
        order = {
            "command": command.replace("\0", ""),
            "chars": self.limits.output_chars if chars is None else chars,
        }
        return self._guarded(lambda link: self._shell(link, json.dumps(order).encode()))

    def snapshot(self) -> None:
        """Keeps variables and files as they are now; the one kept before is given up."""
        self._opened().send(b"S")
        self._snapshot = True

    def restore(self) -> None:
        """Makes variables and files as they were at the snapshot, which is kept.

        Raises:
            SandboxError: there is no snapshot, or it was lost with the session's process.
        """
        try:
            link = self._opened()
            link.send(b"U")
            kind, body = link.receive(START_S)
            done = kind == b"U" and json.loads(body)["done"]
        except (Gone, ValueError):
            self.close()
            done = False
        if not (done and self._snapshot):
            raise SandboxError(
                "no snapshot to go back to", where="namespace", mend="begin a new session"
            )

    def commit(self) -> None:
        """Gives up the snapshot: what happened since stays."""
        self._snapshot = False
        if self._link is not None:
            self._link.send(b"C")

    def close(self) -> None:
        """Ends the session's processes; its files go with them."""
        self._snapshot = False
        if self._link is not None:
            self._link.close()
            self._link = None

    def _open(self) -> "Link":
        return Link(self._server.open(self.limits.wire()))

    def _opened(self) -> "Link":
        if self._link is None:
            self._link = self._open()
        return self._link

    def _guarded(self, ask: Callable[["Link"], Cell]) -> Cell:
        """The cell; `invalid` where the session's own processes failed, and it begins anew."""
        try:
            return ask(self._opened())
        except (Gone, ValueError, KeyError, TypeError, RecursionError) as error:
            self.close()
            return Cell("invalid", error=f"the session was lost: {error}")

    def _run(self, link: "Link", body: bytes, tools: Mapping[str, Function]) -> Cell:
        link.send(b"R", body)
        while True:
            kind, found = link.receive(self.limits.wall_s + START_S)
            if kind == b"D":
                return _cell(found)
            if kind != b"T":
                raise Gone("nonsense")
            try:
                answer = self._answer(found, tools)
            except BaseException:
                # A fault of ours, or an interrupt: the cell must not stay half done.
                link.send(b"K")
                link.receive(START_S)
                raise
            link.send(b"A", answer)

    def _shell(self, link: "Link", body: bytes) -> Cell:
        link.send(b"H", body)
        kind, found = link.receive(self.limits.wall_s + START_S)
        if kind != b"H":
            raise Gone("nonsense")
        return _cell(found)

    def _answer(self, call: bytes, tools: Mapping[str, Function]) -> bytes:
        try:
            name, arguments = _call(call)
        except (ValueError, KeyError, TypeError, RecursionError):
            return _fault("a call is an object with a name and an object of arguments")
        if name not in tools:
            return _fault(f"no tool is named {name[:80]!r}")
        tool = tools[name]
        try:
            value = getattr(tool, "call", tool)(arguments)
        except Exception as fault:
            text = getattr(fault, "text", None)
            if not isinstance(text, str):
                raise
            return _fault(text)
        answer, most = json.dumps({"value": value}).encode(), self.limits.message_kib << 10
        if len(answer) > most:
            return _fault(f"{name}: an answer of {len(answer)} bytes; {most} are allowed")
        return answer


def _cell(body: bytes) -> Cell:
    found = json.loads(body)
    outcome = found["outcome"]
    if outcome not in OUTCOMES:
        raise Gone("nonsense")
    texts = [_clean(found[key]) for key in ("printed", "error")]
    return Cell(outcome, texts[0], texts[1], bool(found["cut"]), float(found["cpu_s"]))


def _clean(text: Any) -> str:
    # Half of a pair of surrogates cannot be written anywhere later.
    return str(text).encode("utf-8", "replace").decode()


def _call(body: bytes) -> tuple[str, dict[str, Any]]:
    message = json.loads(body, parse_constant=_no_constant, parse_float=_finite)
    name, arguments = message["name"], message["arguments"]
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise TypeError("no call")
    return name, arguments


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _fault(text: str) -> bytes:
    return json.dumps({"fault": text}).encode()


def _parameters(tool: Any) -> list[str]:
    schema = getattr(tool, "parameters", None) or {}
    return list(schema.get("properties", {}))
