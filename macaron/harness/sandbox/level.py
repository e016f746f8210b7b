"""Levels of isolation: their names, which are active on this host, and demands of them.

A name is active only where it holds for jobs and for namespaces alike, and was tried out.
"""

from collections.abc import Sequence
from functools import cache

from macaron.errors import ConfigError

LEVELS = {
    "rlimits": "processor time, memory, files and processes are limited by the kernel",
    "nobody": "the servers gave up root; only where they were started as root",
    "namespaces": "own users, processes, network, IPC and mounts: no other process can be seen",
    "private-root": "own root folder: Python's library and system programs, read-only, and a /tmp",
    "landlock": "a second fence around files",
    "seccomp": "a list of the system calls that may be made",
}


def check_level(demanded: Sequence[str], active: Sequence[str], where: str) -> None:
    """Checks demands of isolation.

    Args:
        demanded: names out of `LEVELS`.
        active: names that are active.
        where: the field that demands them.

    Raises:
        ConfigError: a name is unknown or not active.
    """
    if unknown := sorted(set(demanded) - set(LEVELS)):
        raise ConfigError(
            f"no level of isolation is named {unknown[0]!r}",
            where=where,
            mend=f"the names are {', '.join(LEVELS)}",
        )
    if missing := [name for name in LEVELS if name in set(demanded) - set(active)]:
        raise ConfigError(
            f"isolation that is demanded is not active here: {', '.join(missing)}; active is"
            f" {', '.join(active) or 'none'}",
            where=where,
            mend="run where it is (docs/sandbox.md), or demand less",
        )


@cache
def sandbox_level() -> tuple[str, ...]:
    """Names of the isolation that is active here, for jobs and for namespaces alike.

    Starts this process's own servers, which then stay: about 0.3 s.

    Raises:
        SandboxError: a server cannot be started.
    """
    # Both stand above this module.
    from macaron.harness.namespace_server import shared_server
    from macaron.harness.sandbox.jobs import shared_sandbox

    return common_level(shared_sandbox().level(), shared_server().level)


def common_level(*levels: Sequence[str]) -> tuple[str, ...]:
    """The names that are in all levels, in the order of `LEVELS`."""
    return tuple(name for name in LEVELS if all(name in level for level in levels))


def level_line(active: Sequence[str]) -> str:
    """One line that says what is active and what is not."""
    missing = [name for name in LEVELS if name not in active]
    lacking = f"; not active: {', '.join(missing)}" if missing else ""
    return f"{', '.join(active)}{lacking}"


def demand_level(demanded: Sequence[str], where: str) -> None:
    """Checks demands of isolation against what is active here.

    Args:
        demanded: names out of `LEVELS`; where there are none nothing is started.
        where: the field that demands them, such as "models/profiles/tall.toml: sandbox".

    Raises:
        ConfigError: a name is unknown or not active.
        SandboxError: a server cannot be started.
    """
    if demanded:
        check_level(demanded, sandbox_level(), where)
