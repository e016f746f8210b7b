"""Who may ask for what: API keys, their scopes and allowances.

Without a file of keys, whoever reaches a loopback address may do everything; once there was a key,
one is needed, even if all were revoked.
"""

import ipaddress

from starlette.requests import Request

from macaron.errors import ConfigError
from macaron.serve.http.errors import ApiError, busy
from macaron.serve.http.keys import LOCAL, Key, KeyFile, Scope
from macaron.serve.http.limits import Allowances
from macaron.serve.http.notes import notes_of
from macaron.serving import ServeConfig

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class Gate:
    """Lets requests through.

    Args:
        config: the server's settings.
        keys: the keys there are.
        allowances: what each may use.

    Raises:
        ConfigError: others than this machine could reach the server, and there is no key.
    """

    def __init__(self, config: ServeConfig, keys: KeyFile, allowances: Allowances) -> None:
        self._local = is_loopback(config.host)
        self._keys, self._allowances = keys, allowances
        if not self._local and not keys.keys():
            raise ConfigError(
                f"{config.host} can be reached by others, and there is no API key",
                where="serve.host",
                mend="make one with `macaron serve keys add NAME`, or listen on 127.0.0.1",
            )

    def admit(self, request: Request, scope: Scope) -> Key:
        """The key of a request that may do this.

        Raises:
            ApiError: 401, 403 or 429.
        """
        key = self._key(request)
        notes_of(request.scope).key = key.id
        if scope not in key.scopes:
            message = f"The API key lacks the scope `{scope}`."
            raise ApiError(403, message, type="permission_error", code="insufficient_scope")
        if wait := self._allowances.request(key.id):
            raise busy(f"The key's allowance is used up; try again in {wait} s.", wait)
        return key

    def admit_local(self, request: Request, scope: Scope) -> None:
        """As `admit`, but anyone on this machine may, unless a proxy speaks for another."""
        passed_on = any(name in request.headers for name in FORWARDED)
        client = request.client.host if request.client else ""
        if not (self._local and is_loopback(client) and not passed_on):
            self.admit(request, scope)

    def _key(self, request: Request) -> Key:
        if self._local and not self._keys.needed():
            return LOCAL
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        key = self._keys.find(token.strip()) if kind.lower() == "bearer" else None
        if key is None:
            raise ApiError(
                401,
                "No valid API key: send one as `Authorization: Bearer ...`.",
                type="authentication_error",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return key


def is_loopback(host: str) -> bool:
    """Whether only this machine can be at the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
