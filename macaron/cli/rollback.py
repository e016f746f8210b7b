"""`macaron rollback`: an earlier champion becomes the champion again; nothing is removed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from macaron.registry.champions import Version


def rollback(
    to: Annotated[
        str,
        typer.Option(
            metavar="PAIR",
            help="Id of a registered pair, or its beginning. Default: the champion before this.",
        ),
    ] = "",
    why: Annotated[
        str, typer.Option(metavar="TEXT", help="The reason, kept with the version left.")
    ] = "",
) -> None:
    """Make an earlier pair the champion again.

    Who, when and why are kept in MLflow. Refused while a cycle runs.
    """
    from macaron.cli.project import person, versions
    from macaron.mindforge.cycle import exclusive
    from macaron.mindforge.stores import pair_store, tracking
    from macaron.settings import load_settings

    settings = load_settings()
    before = _champion(versions(settings))
    with exclusive(settings):
        # Every part is checked first: a pair that cannot be served must not become champion.
        pair = pair_store(settings).get(to or _replaced(before))
        registry = tracking(settings, settings.model_name)
        now = registry.rollback(pair.id, who=person(), why=why)
    already = " already" if now.pair_id == before.pair_id else ""
    print(f"pair {now.pair_id}, version {now.version}, is the champion{already}")


def _champion(found: "Sequence[Version]") -> "Version":
    from macaron.cli.project import holder
    from macaron.errors import RegistryError

    champion = holder(found, "champion")
    if champion is None:
        raise RegistryError("there is no champion yet", mend="`macaron improve` makes the first")
    return champion


def _replaced(champion: "Version") -> str:
    """The pair whose place the champion took."""
    from macaron.errors import RegistryError

    if not (before := champion.tags.get("previous")):
        raise RegistryError(
            f"there was no champion before {champion.pair_id}", mend="name a pair with --to"
        )
    return before
