"""What a command knows of the project's records, without making any of them."""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from macaron.errors import RegistryError
from macaron.mindforge.cycle import LOCK
from macaron.settings import SQLITE, Settings

if TYPE_CHECKING:
    from macaron.registry.champions import Version
    from macaron.registry.pairs import PairStore

ALIASES = ("champion", "previous", "challenger")


def database(settings: Settings) -> Path | None:
    """MLflow's SQLite file; None where another store is set."""
    uri = settings.mlflow_uri
    return Path(uri.removeprefix(SQLITE)) if uri.startswith(SQLITE) else None


def versions(settings: Settings) -> "list[Version]":
    """The registered pairs with their aliases, the oldest first; none where no cycle ever ran."""
    from macaron.mindforge.stores import tracking

    file = database(settings)
    if file is not None and not file.exists():
        return []
    return tracking(settings, settings.model_name).versions()


def holder(found: "Sequence[Version]", alias: str) -> "Version | None":
    """The version that an alias points to."""
    return next((version for version in found if alias in version.aliases), None)


def resolve(name: str, store: "PairStore", found: "Sequence[Version]") -> str:
    """The id of the pair named by an id, its beginning, or an alias.

    Raises:
        RegistryError: there is none, or several begin so.
    """
    if name not in ALIASES:
        return store.resolve(name)
    version = holder(found, name)
    if version is None:
        raise RegistryError(
            f"there is no {name}", mend="`macaron pairs list` shows those there are"
        )
    return store.resolve(version.pair_id)


def registered(name: str, found: "Sequence[Version]") -> "Version":
    """The registered version of the pair named by an id, its beginning, or an alias.

    Raises:
        RegistryError: there is none, or several begin so.
    """
    fits = [v for v in found if name in v.aliases or (name and v.pair_id.startswith(name))]
    if len({v.pair_id for v in fits}) != 1:
        what = f"{name!r} names several pairs" if fits else "no such pair is registered"
        raise RegistryError(what, where=name, mend="`macaron pairs list` shows those there are")
    return fits[0]


def person() -> str:
    """Git's user, or the machine's."""
    import getpass
    import subprocess

    found = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True)
    return found.stdout.strip() or getpass.getuser()


def running(settings: Settings) -> int | None:
    """Process id of the running cycle; None where none runs."""
    path = settings.state / LOCK
    if not path.exists():
        return None
    with path.open("rb") as file:
        text = file.read().decode(errors="replace").strip()
        if not (text.isdigit() and _alive(int(text))):
            # Asking the kernel takes the lock for a moment, and could turn a starting cycle away.
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(text)
    return None


def _alive(process: int) -> bool:
    with suppress(PermissionError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True
