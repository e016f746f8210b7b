"""`macaron serve keys`: the API keys of the server, made, listed and taken back."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from macaron.serve.http.keys import KeyFile

keys_app = typer.Typer(help="Make, list and take back API keys.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Scopes = Annotated[
    str, typer.Option("--scope", metavar="LIST", help="Of chat, feedback and admin, with commas.")
]
Expires = Annotated[
    datetime | None,
    typer.Option("--expires", help="When it ends, in this machine's time; never without."),
]


@keys_app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.")],
    scope: Scopes = "chat,feedback",
    expires: Expires = None,
) -> None:
    """Make a key and print it. It is kept as a digest only: this is the one time to copy it."""
    from macaron.errors import ConfigError
    from macaron.serve.http.keys import SCOPES

    scopes = [part.strip() for part in scope.split(",")]
    if odd := [part for part in scopes if part not in SCOPES]:
        mend = f"there are {', '.join(SCOPES)}"
        raise ConfigError(f"no such scope: {odd[0]!r}", where="--scope", mend=mend)
    if expires is not None and expires.astimezone() <= datetime.now().astimezone():
        raise ConfigError("is in the past", where="--expires", mend="give a later time")
    print(_file().add(name, list(dict.fromkeys(scopes)), expires))


@keys_app.command("list")
def list_keys(json: Json = False) -> None:
    """List the keys: whose they are, what they may do, until when; never the keys themselves."""
    from datetime import UTC

    from macaron.cli.output import print_json, print_table

    keys, now = _file().keys().values(), datetime.now(UTC)
    if json:
        columns = ("id", "name", "scopes", "created_at", "expires_at")
        print_json([{name: getattr(key, name) for name in columns} for key in keys])
    elif not keys:
        print("there are no keys")
    else:
        rows = [
            (key.id, key.name, ",".join(key.scopes), key.created_at[:10], key.until(now))
            for key in keys
        ]
        print_table(("id", "name", "scopes", "made", "until"), rows)


@keys_app.command()
def revoke(key: Annotated[str, typer.Argument(metavar="KEY", help="Its id or name.")]) -> None:
    """Take a key back; a running server refuses it from its next request on."""
    found = _file().revoke(key)
    print(f"key {found.id} ({found.name}) is revoked")


def _file() -> "KeyFile":
    from macaron.serve.http.keys import KeyFile
    from macaron.settings import load_settings

    return KeyFile(load_settings().serve_keys)
