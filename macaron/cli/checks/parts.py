"""The parts that a cycle uses: stores, Prefect, the sandbox, the lock, telemetry."""

import os
import sqlite3
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from macaron.cli.checks.check import Check, fail, guarded, ok, warn
from macaron.cli.environment import TELEMETRY, cycle_environment
from macaron.cli.project import database, running
from macaron.profile import load_profile
from macaron.settings import Settings

TIMEOUT = 3.0
"""Seconds that a service has to answer."""


def checks(settings: Settings) -> Iterator[Check]:
    """Each part, without starting or making any."""
    yield _mlflow(settings)
    yield from guarded("dvc", lambda: _dvc(settings))
    yield _prefect(settings)
    yield from guarded("sandbox", lambda: _sandbox(settings))
    yield _lock(settings)
    environment = cycle_environment(settings.state)
    wrong = [name for name, value in TELEMETRY.items() if environment[name] != value]
    yield fail("telemetry", f"on: {wrong}") if wrong else ok("telemetry", "off in every cycle")
    yield from guarded("verifiers", lambda: _verifiers(settings))


def _mlflow(settings: Settings) -> Check:
    uri, file = settings.mlflow_uri, database(settings)
    if uri.startswith(("http://", "https://")):
        return _answers("mlflow", f"{uri.rstrip('/')}/health", "start it, or mend stores.mlflow")
    if file is None:
        return warn("mlflow", f"{uri}: this kind of store is not checked here")
    if not file.exists():
        return _creatable("mlflow", file)
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=TIMEOUT) as connection:
            (count,) = connection.execute("SELECT count(*) FROM model_versions").fetchone()
    except sqlite3.Error as error:
        return fail("mlflow", f"{file}: {error}", "restore it, or move it away and start anew")
    return ok("mlflow", f"{file}, {count} versions")


def _dvc(settings: Settings) -> Check:
    remote = settings.dvc_remote
    if "://" not in remote:
        folder = Path(remote)
        return ok("dvc", f"remote {folder}") if folder.exists() else _creatable("dvc", folder)
    from dvc.fs import get_cloud_fs

    try:
        kind, config, path = get_cloud_fs({}, url=remote)
        kind(**config).exists(path)
    # A remote can fail in as many ways as there are services.
    except Exception as error:
        return fail("dvc", f"{remote}: {str(error).splitlines()[0]}", "mend stores.dvc_remote")
    return ok("dvc", f"remote {remote}")


def _prefect(settings: Settings) -> Check:
    url = os.environ.get("PREFECT_API_URL", "")
    if url:
        return _answers(
            "prefect", f"{url.rstrip('/')}/health", "start it, or unset PREFECT_API_URL"
        )
    home = cycle_environment(settings.state)["PREFECT_HOME"]
    return ok("prefect", f"a temporary server for each cycle, home {home}")


def _answers(name: str, url: str, mend: str) -> Check:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT):
            return ok(name, f"{url} answers")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return fail(name, f"{url}: {reason}", mend)


def _creatable(name: str, path: Path) -> Check:
    """A store that the first cycle makes."""
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if os.access(parent, os.W_OK):
        return ok(name, f"{path}, made by the first cycle")
    return fail(name, f"{path}: {parent} cannot be written", "check its owner and mode")


def _sandbox(settings: Settings) -> Check:
    """Runs a line of code in both kinds of it, and says what keeps that from the machine."""
    from macaron.harness.namespace import Namespace
    from macaron.harness.namespace_server import NamespaceServer
    from macaron.harness.sandbox import Job, Sandbox, check_level, common_level, level_line

    server = NamespaceServer()
    try:
        with Sandbox() as sandbox, Namespace(server=server) as namespace:
            level = common_level(sandbox.level(), namespace.level)
            (result,) = sandbox.run([Job("print(6 * 7)")])
            cell, shell = namespace.run("print(6 * 7)"), namespace.shell("echo 42")
    finally:
        server.close()
    fact = level_line(level)
    if (result.outputs, cell.printed) != (("42\n",), "42\n"):
        error = result.error or cell.error
        return fail("sandbox", f"runs no code: {result.outcome}, {cell.outcome} {error}")
    where = settings.path(f"models/profiles/{settings.profile}.toml")
    if where.exists():
        check_level(load_profile(where).sandbox, level, f"{where}: sandbox")
    if not {"namespaces", "private-root"} <= set(level):
        mend = "run on Linux as root, or with user namespaces allowed"
        return warn("sandbox", f"{fact}; sessions have no files and no shell", mend)
    if shell.printed != "42\n":
        return warn("sandbox", f"{fact}; no shell in sessions: {shell.error}", "install /bin/sh")
    return ok("sandbox", f"{fact}; sessions have files and a shell")


def _verifiers(settings: Settings) -> Check:
    """Attacks those that a cycle pays by, but for what a cycle found sound."""
    from macaron.contract.document import load_contract
    from macaron.environments.watch import MEMORY, used, watch_all

    names = used(load_contract(settings.path(settings.contract)))
    watch_all(names, settings.state / MEMORY, remember=False)
    return ok("verifiers", f"none of {len(names)} pays for a cheap attack")


def _lock(settings: Settings) -> Check:
    from macaron.mindforge.cycle import cycles

    process = running(settings)
    if process is not None:
        return ok("cycle", f"process {process} runs one")
    stopped = [record["id"] for record in cycles(settings) if record["state"] == "running"]
    if stopped:
        return warn("cycle", f"{stopped[-1]} was stopped", "`macaron improve` goes on with it")
    return ok("cycle", "none runs")
