"""Attempts to get out, and to use up what there is: each is contained, and reported with its kind.

The attempts are data, in data/attacks; walks.toml explains their fields. Around each of them: a
host file that nobody may read, one that nobody may change, a port that nobody may reach, and a
second session whose state must go on.
"""

import os
import socket
import sysconfig
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from macaron.harness.namespace import Namespace, NamespaceLimits
from macaron.harness.namespace_server import NamespaceServer
from macaron.harness.sandbox import Job, Limits, Sandbox
from macaron.harness.sandbox.jobs import Result
from tests.harness.processes import descendants

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "data" / "attacks").glob("*.toml"))
ATTACKS: list[dict[str, Any]] = [a for f in FILES for a in tomllib.loads(f.read_text())["attack"]]
SECRET, KEPT = "s3cret-of-the-host", "as it was"
KEYS = {"id", "kind", "source", "never", "code"}
OPTIONAL = {"job", "namespace", "then", "then_outcomes", "waits"}
# Busy machines are slow: a limit is small only where it is meant to be met.
AMPLE = {"cpu_s": 30, "wall_s": 60.0}


def limits(attack: dict[str, Any], place: str) -> dict[str, Any]:
    """Small ones of the kind that should end the attack."""
    late = "timeout" in [*attack[place], *attack.get("then_outcomes", [])]
    if attack.get("waits"):
        return {**AMPLE, "wall_s": 2.0}
    return {**AMPLE, "cpu_s": 1} if late else AMPLE


def cases(place: str) -> list[Any]:
    """The attacks that make sense there; those that use up their time are in the full tier."""
    found = []
    for attack in ATTACKS:
        if place in attack:
            slow = "timeout" in attack[place] and not attack.get("waits")
            marks = [pytest.mark.full] if slow else []
            found.append(pytest.param(attack, id=attack["id"], marks=marks))
    return found


@dataclass
class Host:
    """What an attack must leave as it is."""

    folder: Path
    port: socket.socket
    abstract: socket.socket
    server: NamespaceServer
    sandboxes: dict[str, Sandbox]
    witness: Namespace
    count: int = 0

    def code(self, text: str) -> str:
        """The attack's code with its targets filled in."""
        for name, value in {
            "SECRET": self.folder / "secret.txt",
            "VICTIM": self.folder / "victim.txt",
            "PORT": self.port.getsockname()[1],
            "ABSTRACT": self.abstract.getsockname()[1:].decode(),
            "PID": os.getpid(),
            "ROOT": ROOT,
            "SITE": sysconfig.get_paths()["purelib"],
            "HOME": Path.home(),
        }.items():
            text = text.replace(f"@{name}@", str(value))
        return text

    def check(self, said: str) -> None:
        """Nothing was read, changed, reached or lost."""
        assert SECRET not in said
        assert (self.folder / "victim.txt").read_text() == KEPT
        assert (self.folder / "secret.txt").read_text() == SECRET
        assert sorted(p.name for p in self.folder.iterdir()) == [
            "secret.txt", "secret.txt.py", "victim.txt",
        ]  # fmt: skip
        for listener in (self.port, self.abstract):
            with pytest.raises(BlockingIOError):
                listener.accept()
        self.count += 1
        cell = self.witness.run("count += 1\nprint(count, open('/tmp/other.txt').read())")
        assert (cell.outcome, cell.printed) == ("ok", f"{self.count} other\n")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    # Whoever the sandbox runs as could read and change them, were they in sight.
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    (folder / "secret.txt").write_text(SECRET)
    (folder / "secret.txt.py").write_text(f"TOKEN = {SECRET!r}")
    (folder / "victim.txt").write_text(KEPT)
    (folder / "victim.txt").chmod(0o666)
    os.environ["SECRET_TOKEN"] = SECRET
    server = NamespaceServer()
    port, abstract = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0macaron-{os.getpid()}")
    abstract.listen()
    for listener in (port, abstract):
        listener.setblocking(False)
    with (
        port,
        abstract,
        Sandbox(Limits(**AMPLE)) as ample,
        Sandbox(Limits(**{**AMPLE, "cpu_s": 1})) as short,
        Sandbox(Limits(**{**AMPLE, "wall_s": 2.0})) as waiting,
        Namespace(server=server) as witness,
    ):
        witness.run("count = 0\nopen('/tmp/other.txt', 'w').write('other')")
        sandboxes = {str(box.limits): box for box in (ample, short, waiting)}
        yield Host(folder, port, abstract, server, sandboxes, witness)
    server.close()
    del os.environ["SECRET_TOKEN"]


def test_the_attacks_are_well_described() -> None:
    assert len(ATTACKS) >= 60
    assert max(Counter(a["id"] for a in ATTACKS).values()) == 1
    for attack in ATTACKS:
        assert KEYS <= attack.keys() <= KEYS | OPTIONAL, attack["id"]
        assert all(attack[key] for key in KEYS)
        assert attack.keys() & {"job", "namespace"}


@pytest.mark.parametrize("attack", cases("job"))
def test_a_job_stays_inside(host: Host, attack: dict[str, Any]) -> None:
    sandbox = host.sandboxes[str(Limits(**limits(attack, "job")))]
    found, after = sandbox.run([Job(host.code(attack["code"])), Job("print('still here')")])
    said = "".join(str(output) for output in found.outputs)
    assert found.outcome in attack["job"], found
    assert "ESCAPED" not in said
    assert after == Result("ok", ("still here\n",))
    host.check(said + found.error)


@pytest.mark.parametrize("attack", cases("namespace"))
def test_a_session_stays_inside(host: Host, attack: dict[str, Any]) -> None:
    tools = {"echo": lambda arguments: arguments["value"]}
    server = descendants(host.server.pid)
    given = NamespaceLimits(**limits(attack, "namespace"))
    with Namespace(given, server=host.server) as session:
        session.run("mark = [41]\nmark.append(mark)\nopen('/tmp/mark.txt', 'w').write('marked')")
        session.snapshot()
        cell = session.run(host.code(attack["code"]), tools)
        said = cell.printed + cell.error
        assert cell.outcome in attack["namespace"], cell
        assert "ESCAPED" not in cell.printed
        if "then" in attack:
            after = session.run(attack["then"], tools)
            assert after.outcome in attack["then_outcomes"], after
        session.run("1 + 1", tools)
        session.restore()
        back = session.run("print(mark[0], mark[1] is mark, open('/tmp/mark.txt').read())", tools)
        assert (back.outcome, back.printed) == ("ok", "41 True marked\n"), back
    gone(server, host.server.pid)
    host.check(said)


@pytest.mark.full
@pytest.mark.parametrize("attack", cases("namespace"))
def test_a_session_without_namespaces_stays_inside(
    host: Host, locked: NamespaceServer, attack: dict[str, Any]
) -> None:
    """What is reported may differ, where there is no /tmp; what is contained may not."""
    given = NamespaceLimits(**{**limits(attack, "namespace"), "cpu_s": 1})
    with Namespace(given, server=locked) as session:
        session.run("mark = [41]\nmark.append(mark)")
        session.snapshot()
        tools = {"echo": lambda arguments: arguments["value"]}
        cell = session.run(host.code(attack["code"]), tools)
        assert cell.outcome != "invalid"
        assert "ESCAPED" not in cell.printed
        session.run("1 + 1", tools)
        session.restore()
        assert session.run("print(mark[0], mark[1] is mark)").printed == "41 True\n"
    gone([], locked.pid)
    host.check(cell.printed + cell.error)


@pytest.fixture(scope="module")
def locked() -> Iterator[NamespaceServer]:
    made = NamespaceServer(without=("namespaces", "private-root"))
    yield made
    made.close()


def gone(before: list[int], server: int) -> None:
    """Waits until the session's processes have ended, every one."""
    deadline = time.monotonic() + 20
    while (left := set(descendants(server)) - set(before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left
