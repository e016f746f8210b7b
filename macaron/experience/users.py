"""End users by pseudonym: their names are never stored, and without the project's secret no
pseudonym leads back to a name."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from macaron.errors import DigestError
from macaron.experience.store import sync_folder
from macaron.files import storage_errors
from macaron.settings import Settings

FILE = "users.key"
_BYTES = 32


def pseudonym(settings: Settings, user: str) -> str:
    """What stands for an end user: HMAC-SHA256 of the name under the project's secret, hex.

    The secret is made once, in the state folder. Without it, data is no longer found by name.

    Raises:
        DigestError: the secret's file was cut.
        StorageError: it cannot be written.
    """
    name = user.encode("utf-8", "surrogatepass")
    return hmac.new(_secret(settings.state / FILE), name, hashlib.sha256).hexdigest()


def _secret(path: Path) -> bytes:
    if not path.exists():
        _make(path)
    found = bytes.fromhex(text) if _is_hex(text := path.read_text().strip()) else b""
    if len(found) != _BYTES:
        raise DigestError(
            "is no secret of 32 bytes", where=str(path), mend="restore it from a copy"
        )
    return found


def _make(path: Path) -> None:
    """Writes it whole or not at all; of several processes, one."""
    temporary = path.with_name(f"{FILE}.{os.getpid()}-{secrets.token_hex(4)}")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, secrets.token_hex(_BYTES).encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        sync_folder(path.parent)


def _is_hex(text: str) -> bool:
    return len(text) == 2 * _BYTES and set(text) <= set("0123456789abcdef")
