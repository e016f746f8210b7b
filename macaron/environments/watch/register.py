"""The watch over all environments that are used, done once for each state of a verifier's code.

A pass is remembered under the digest of the code and the attacks; a failure never is.
"""

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import macaron
from macaron.contract.document import Contract
from macaron.environments import environment, environments
from macaron.environments.base import Environment
from macaron.environments.watch.attacks import digest as attacks_digest
from macaron.environments.watch.watch import refuse
from macaron.errors import DigestError
from macaron.files import digest_file, digest_tree, digest_value, read_json, write_json

MEMORY = "watch.json"
"""The memory's name in the state folder."""
HOUSE = Path(macaron.__file__).parent
JUDGING = ("environments", "harness")
"""Rooms of the library that scores depend on: verifiers, and the sandbox that they use."""


def used(contract: Contract) -> list[str]:
    """Names of the environments that a night pays by: the bank's and the contract's."""
    suites = (suite.environment for suite in contract.suites)
    return list(dict.fromkeys((*environments(), *suites)))


def watch_all(names: Iterable[str], memory: Path, *, remember: bool = True) -> int:
    """Attacks every environment whose verifier has not been found sound yet.

    Args:
        names: of the environments that are used.
        memory: file of what was found sound; made where there is none.
        remember: whether it is written.

    Returns:
        How many were attacked now.

    Raises:
        ConfigError: a verifier pays for an attack, or an environment cannot be loaded.
    """
    sound, attacked = _read(memory), 0
    for name in dict.fromkeys(names):
        made = environment(name)
        digest = code_digest(made)
        if digest is not None and sound.get(name) == digest:
            continue
        refuse(made)
        attacked += 1
        if remember and digest is not None:
            # Written at once: what is sound stays known if the next one is not.
            sound = {**sound, name: digest}
            write_json(memory, sound)
    return attacked


def code_digest(made: Environment) -> str | None:
    """What the verifier's scores depend on; None where that cannot be seen from here.

    Tasks of other formats have their code elsewhere: they are attacked each time.
    """
    if ":" in made.name:
        return None
    file = Path(inspect.getfile(type(made)))
    own = digest_file(file)
    if not file.is_relative_to(HOUSE) and (file.parent / "__init__.py").exists():
        own = digest_tree(file.parent, "**/*.py")
    return digest_value([own, _house(), attacks_digest()])


@cache
def _house() -> str:
    return digest_value([digest_tree(HOUSE / room, "**/*.py") for room in JUDGING])


def _read(memory: Path) -> Mapping[str, str]:
    try:
        found = read_json(memory)
    except (OSError, DigestError):
        # Only a memory of work done: without it the work is done again.
        return {}
    return found if isinstance(found, dict) else {}
