"""API keys: shown once, kept as digests in a file that only its owner can read.

A key is 256 random bits. Slow hashing protects what people choose, which can be guessed; nobody
guesses 256 bits, so one SHA-256 is enough and costs a request nothing.
"""

import fcntl
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from macaron.errors import ConfigError
from macaron.experience.times import parse_time
from macaron.files import atomic_path, storage_errors

Scope = Literal["chat", "feedback", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PREFIX = "mac"
_FORM = re.compile(rf"{PREFIX}_([0-9a-f]{{12}})_[A-Za-z0-9_-]{{43}}")
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Key:
    """An API key, without what is secret."""

    id: str
    name: str
    scopes: Sequence[str]
    created_at: str
    """ISO 8601, UTC, as `expires_at`."""
    digest: str
    """SHA-256 of the whole key."""
    expires_at: str | None = None

    def expired(self, now: datetime) -> bool:
        """Whether it is no longer taken."""
        return self.expires_at is not None and parse_time(self.expires_at) <= now

    def until(self, now: datetime) -> str:
        """The day it ends, for a person."""
        if self.expires_at is None:
            return "for ever"
        return self.expires_at[:10] + (" (expired)" if self.expired(now) else "")


LOCAL = Key("local", "local", SCOPES, "", _NOBODY)
"""Whoever calls a loopback address while there are no keys."""


class KeyFile:
    """The keys of a server; what another process changed is seen at the next look.

    Args:
        path: the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: object = None
        self._keys: dict[str, Key] = {}

    def keys(self) -> Mapping[str, Key]:
        """All keys by id, the oldest first.

        Raises:
            ConfigError: the file is not what `macaron serve keys` writes.
        """
        state = self._state()
        if state != self._seen:
            self._keys, self._seen = self._read(), state
        return self._keys

    def needed(self) -> bool:
        """Whether there ever was a key."""
        return self._state() is not None

    def find(self, token: str) -> Key | None:
        """The key that a client shows, unless it is unknown, revoked or expired."""
        form = _FORM.fullmatch(token)
        key = self.keys().get(form.group(1)) if form else None
        # Compared in any case, so that the time taken does not tell which ids there are.
        same = hmac.compare_digest(_digest(token), key.digest if key else _NOBODY)
        return key if key and same and not key.expired(datetime.now(UTC)) else None

    def add(self, name: str, scopes: Sequence[str], expires: datetime | None = None) -> str:
        """Makes a key; returns it, which is the only time that it can be seen."""
        key_id = secrets.token_hex(6)
        token = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        until = expires.astimezone(UTC).isoformat(timespec="seconds") if expires else None
        key = Key(key_id, name, tuple(scopes), now, _digest(token), until)
        with self._alone():
            self._write({**self.keys(), key_id: key})
        return token

    def revoke(self, name: str) -> Key:
        """Takes a key back, by its id or name; running servers see it at the next request.

        Raises:
            ConfigError: there is none, or several have the name.
        """
        with self._alone():
            found = [key for key in self.keys().values() if name in (key.id, key.name)]
            if len(found) != 1:
                what = "several keys have this name" if found else "there is no such key"
                mend = "give an id that `macaron serve keys list` shows"
                raise ConfigError(what, where=name, mend=mend)
            self._write({i: key for i, key in self.keys().items() if i != found[0].id})
        return found[0]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two commands at once must not undo each other."""
        with storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield

    def _state(self) -> object:
        """Changes whenever the file does: it is always replaced, so its inode is another."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> dict[str, Key]:
        try:
            with storage_errors(self.path):
                rows = json.loads(self.path.read_text(encoding="utf-8"))["keys"]
            return {row["id"]: _checked(row) for row in rows}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                "is no file of API keys", where=str(self.path), mend="restore it, or move it away"
            ) from error

    def _write(self, keys: Mapping[str, Key]) -> None:
        content = json.dumps({"keys": [asdict(key) for key in keys.values()]}, indent=2) + "\n"
        with atomic_path(self.path, mode=0o600) as temporary:
            temporary.write_text(content, encoding="utf-8")


def _checked(row: dict[str, Any]) -> Key:
    key = Key(**row)
    key.expired(datetime.now(UTC))
    return replace(key, scopes=tuple(key.scopes))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
