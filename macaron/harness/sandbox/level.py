"""Levels of isolation: their names, which are active on this host, and demands of them.

A name is active only where it holds for jobs and for namespaces alike, and was tried out.
"""

from collections.abc import Sequence

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
