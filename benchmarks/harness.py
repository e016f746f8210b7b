"""What the harness costs without a model: turns on both surfaces, sessions, sandbox starts.

    python -m benchmarks.harness [--quick] [--turns 400]

A turn is: a user's message, one response that acts (a tool call, or a cell that calls the tool
once), its result, and one response that answers. Responses are written here, token ids ready, so
that everything measured is the harness: rendering, parsing, hooks, tools, the sandbox. Wall
milliseconds, the median over turns; the namespaces of the REPL are warm. The peers of the sandbox
are a bare Python process, and one that runs the same cell.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._report import metric
from macaron.engines.base import Completion
from macaron.harness.namespace import Namespace
from macaron.harness.namespace_pool import NamespacePool
from macaron.harness.namespace_server import NamespaceServer
from macaron.harness.sandbox import Job, Sandbox
from macaron.harness.session import Session
from macaron.harness.tools import Tool
from macaron.harness.turn import Request, Turn
from macaron.hcp.document import HCP
from macaron.messages import Message

HOUSE = Path(__file__).parents[1]
NUMBER = {"type": "integer"}
ADD = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}
CELL = "total = add(a=1, b=2)\nprint(total)"
CALL = json.dumps({"name": "add", "arguments": {"a": 1, "b": 2}})
ACTS = {
    "functions": f"<tool_call>{CALL}</tool_call>",
    "repl": f"```python\n{CELL}\n```",
}
ASK: Message = {"role": "user", "content": "How much are 1 and 2? Use the tool."}


def harness(surface: str) -> HCP:
    """One specialist with one tool."""
    specialist = {
        "name": "agent",
        "system": "You act.",
        "max_tokens": 128,
        "temperature": 0.0,
        "surface": surface,
        "tools": ["add"],
    }
    tool = {"description": "The sum.", "parameters": ADD, "source": "environment"}
    return HCP.model_validate(
        {
            "version": "1.1",
            "router": {"system": "route", "default": "L1"},
            "specialists": {"L1": specialist},
            "tools": {"add": tool},
        }
    )


class Player:
    """Sessions with written responses."""

    def __init__(self, surface: str, namespaces: NamespacePool) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(HOUSE / "models/nano")
        self.hcp, self.namespaces = harness(surface), namespaces
        self.responses = [self._response(ACTS[surface]), self._response("3")]
        self.tools = [Tool("add", "", ADD, lambda arguments: arguments["a"] + arguments["b"])]

    def _response(self, text: str) -> Completion:
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        ids.append(self.tokenizer.eos_token_id)
        return Completion(ids, [0.0] * len(ids), "stop")

    def session(self) -> Session:
        """A new session."""
        sources = {"environment": self.tools}
        return Session(
            self.tokenizer, self.hcp, sources, namespaces=self.namespaces.acquire, window=100_000
        )

    def turn(self, session: Session) -> Turn:
        """One delivered turn."""
        state: Request | Turn = session.begin([ASK], "L1")
        for response in self.responses:
            state = session.advance(response)
        assert isinstance(state, Turn) and state.stop_reason == "answer", state
        assert any(m["role"] == "tool" and m["content"] == "3" for m in state.messages), state
        session.deliver()
        return state


def milliseconds(work: Callable[[], Any], times: int) -> float:
    """Median wall time of some runs; the first is left out."""
    seconds = []
    for _ in range(times + 1):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return 1000 * median(seconds[1:])


def measure_turns(turns: int) -> None:
    """Overhead of a turn on each surface, and sessions of one turn a second."""
    for surface, target in (("functions", 3.0), ("repl", 8.0)):
        with NamespacePool(size=4) as namespaces:
            player = Player(surface, namespaces)
            # Ten turns a session: the prompt grows as it does for users.
            seconds = []
            for _ in range(turns // 10):
                session = player.session()
                player.turn(session)
                for _ in range(10):
                    started = time.perf_counter()
                    player.turn(session)
                    seconds.append(time.perf_counter() - started)
                session.close()
            metric(f"{surface}_turn_ms", 1000 * median(seconds), "ms", "<=", target)
            started, count = time.perf_counter(), max(4, turns // 10)
            for _ in range(count):
                session = player.session()
                player.turn(session)
                session.close()
            metric(f"{surface}_sessions_per_s", count / (time.perf_counter() - started), "1/s")


def cold_namespace() -> None:
    """A server, a session in it and one cell: what the first session of a process waits for."""
    server = NamespaceServer()
    with Namespace(server=server) as namespace:
        assert namespace.run("print(3)", {}).printed.strip() == "3"
    server.close()


def cold_job() -> None:
    """A job server and one job."""
    with Sandbox() as sandbox:
        (result,) = sandbox.run([Job("print(3)")])
        assert result.outcome == "ok"


def measure_sandbox(times: int) -> None:
    """Starts, cold and pooled, beside processes without any sandbox."""
    python = [sys.executable, "-I", "-S", "-c"]
    bare = milliseconds(lambda: subprocess.run([*python, "pass"], check=True), times)
    cell = milliseconds(
        lambda: subprocess.run([*python, "print(3)"], check=True, capture_output=True), times
    )
    metric("python_start_ms", bare, "ms")
    metric("python_cell_ms", cell, "ms")
    metric("namespace_cold_ms", milliseconds(cold_namespace, max(3, times // 5)), "ms")
    metric("job_sandbox_cold_ms", milliseconds(cold_job, max(3, times // 5)), "ms")
    with NamespacePool(size=2 * times + 4) as namespaces:
        taken: list[Namespace] = []
        pooled = milliseconds(lambda: taken.append(namespaces.acquire()), times)
        metric("namespace_pooled_ms", pooled, "ms")
        metric("namespace_pooled_speedup", bare / pooled, "x_over_python_start", ">=", 1.0)
        warm = taken[0]
        ran = milliseconds(lambda: warm.run("print(3)", {}), 5 * times)
        metric("namespace_cell_ms", ran, "ms")
        metric("namespace_cell_speedup", cell / ran, "x_over_python_cell", ">=", 1.0)
        for namespace in taken:
            namespace.close()


def main() -> None:
    """Prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns: under 50 s")
    parser.add_argument("--turns", type=int, default=400)
    given = parser.parse_args()
    measure_turns(100 if given.quick else given.turns)
    measure_sandbox(10 if given.quick else 40)


if __name__ == "__main__":
    main()
