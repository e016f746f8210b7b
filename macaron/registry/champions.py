"""Registered versions and who is champion: a version per pair, aliases as the only pointers.

The champion changes by one alias write and nothing else; all that surrounds it may be repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from macaron.errors import RegistryError
from macaron.registry.connection import Connection, one_line
from macaron.registry.lock import exclusive

CHAMPION, CHALLENGER, PREVIOUS = "champion", "challenger", "previous"
PAIR_ARTIFACT = "pair"
_ORDER = ("verdict", "generation", "pair_id", "parent", "git_tag")


@dataclass(frozen=True)
class ChampionRef:
    """Who is champion."""

    version: int
    """Of the registered model."""
    pair_id: str


@dataclass(frozen=True)
class Version:
    """One registered pair."""

    version: int
    pair_id: str
    run_id: str
    """The cycle's run."""
    tags: Mapping[str, str]
    aliases: tuple[str, ...] = field(default=())


class Champions(Connection):
    """The registered model's versions and aliases."""

    @one_line
    def register(self, folder: Path, run_id: str, tags: Mapping[str, str]) -> int:
        """Registers a pair and makes it the challenger; again, it gives the version that is there.

        Args:
            folder: the pair's folder, kept among the run's artifacts.
            run_id: the cycle's run.
            tags: `pair_id`, verdict, generation, parent, contract, dvc_md5, git_tag; an empty
                value is left out.

        Returns:
            The version's number.
        """
        # The registry's page shows tags in the order of their writing.
        names = [*_ORDER, *sorted(tags.keys() - set(_ORDER))]
        tags = {name: tags[name] for name in names if tags.get(name)}
        with exclusive(self.lock_file):
            found = self._of_pair(tags["pair_id"])
            if found is None:
                self.client.log_artifacts(run_id, str(folder), PAIR_ARTIFACT)
                self._ensure_model()
                created = self.client.create_model_version(
                    self.model_name,
                    source=f"runs:/{run_id}/{PAIR_ARTIFACT}",
                    run_id=run_id,
                    tags=tags,
                    description=_describe(tags),
                )
                version = int(created.version)
            else:
                version = found.version
                for key, value in tags.items():
                    if found.tags.get(key) != value:
                        self._tag(version, key, value)
            if self._aliases().get(CHAMPION) != version:
                self._point(CHALLENGER, version)
            return version

    @one_line
    def promote(self, version: int) -> ChampionRef:
        """Makes a version the champion; the one before stays under the alias `previous`.

        Raises:
            RegistryError: the version was rejected.
        """
        with exclusive(self.lock_file):
            new = self._version(version)
            if new.tags.get("verdict") == "rejected":
                raise RegistryError(
                    f"version {version} was rejected",
                    where=self.model_name,
                    mend="only a promoted verdict makes a champion",
                )
            aliases = self._aliases()
            current = aliases.get(CHAMPION)
            if current != version:
                if current is not None:
                    self._tag(version, PREVIOUS, self._version(current).pair_id)
                    self._point(PREVIOUS, current)
                if aliases.get(CHALLENGER) == version:
                    self.client.delete_registered_model_alias(self.model_name, CHALLENGER)
                self._point(CHAMPION, version)
            return ChampionRef(version, new.pair_id)

    @one_line
    def champion(self) -> ChampionRef | None:
        """Who is champion; None before the first."""
        version = self._aliases().get(CHAMPION)
        return ChampionRef(version, self._version(version).pair_id) if version else None

    @one_line
    def rollback(self, to: str | None = None, *, who: str = "", why: str = "") -> ChampionRef:
        """Goes back to the champion before this one, or to a given pair.

        Who, when and why are kept in tags of the version left. A second rollback goes one
        further back.

        Args:
            to: id of a registered pair; None means the champion that this one replaced.
            who: name of the person.
            why: their reason.

        Raises:
            RegistryError: there is nobody to go back to, or the pair was rejected.
        """
        with exclusive(self.lock_file):
            current = self.champion()
            if current is None:
                raise RegistryError("there is no champion", where=self.model_name)
            back = to or self._version(current.version).tags.get(PREVIOUS)
            target = self._of_pair(back) if back else None
            if target is None:
                what = f"pair {back} was never registered" if back else "no champion before this"
                raise RegistryError(
                    what, where=self.model_name, mend="`macaron pairs list` shows those there are"
                )
            if target.tags.get("verdict") == "rejected":
                raise RegistryError(f"pair {back} was rejected", where=self.model_name)
            if target.version != current.version:
                self._record_rollback(current, target, who, why)
                self._point(CHAMPION, target.version)
            return ChampionRef(target.version, target.pair_id)

    def _record_rollback(self, left: ChampionRef, target: Version, who: str, why: str) -> None:
        note = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} by {who or 'unknown'}"
        self._tag(left.version, "rolled_back", f"{note}: {why or 'no reason given'}")
        self._tag(left.version, "rolled_back_to", target.pair_id)
        before = target.tags.get(PREVIOUS)
        older = self._of_pair(before) if before else None
        if older:
            self._point(PREVIOUS, older.version)
        elif PREVIOUS in self._aliases():
            self.client.delete_registered_model_alias(self.model_name, PREVIOUS)

    @one_line
    def versions(self) -> list[Version]:
        """All registered pairs, the oldest first, with their aliases."""
        names: dict[int, list[str]] = {}
        for alias, version in self._aliases().items():
            names.setdefault(version, []).append(alias)
        found = self.client.search_model_versions(f"name = '{self.model_name}'")
        versions = [_version(item, names.get(int(item.version), [])) for item in found]
        return sorted(versions, key=lambda item: item.version)

    @one_line
    def fetch(self, version: Version, folder: Path) -> Path:
        """Copies a version's pair out of the artifacts; returns where it is."""
        return Path(self.client.download_artifacts(version.run_id, PAIR_ARTIFACT, str(folder)))

    def _aliases(self) -> dict[str, int]:
        # Searching versions gives no aliases; only the registered model knows them.
        found = self.client.search_registered_models(f"name = '{self.model_name}'")
        return {name: int(v) for name, v in found[0].aliases.items()} if found else {}

    def _ensure_model(self) -> None:
        if not self.client.search_registered_models(f"name = '{self.model_name}'"):
            self.client.create_registered_model(self.model_name)

    def _of_pair(self, pair_id: str) -> Version | None:
        found = self.client.search_model_versions(
            f"name = '{self.model_name}' and tags.pair_id = '{pair_id}'"
        )
        return _version(min(found, key=lambda item: int(item.version))) if found else None

    def _version(self, version: int) -> Version:
        return _version(self.client.get_model_version(self.model_name, str(version)))

    def _point(self, alias: str, version: int) -> None:
        self.client.set_registered_model_alias(self.model_name, alias, str(version))

    def _tag(self, version: int, key: str, value: str) -> None:
        self.client.set_model_version_tag(self.model_name, str(version), key, value)


def _version(item: Any, aliases: list[str] | None = None) -> Version:
    tags = dict(item.tags)
    return Version(
        int(item.version), tags.get("pair_id", ""), item.run_id, tags, tuple(sorted(aliases or ()))
    )


def _describe(tags: Mapping[str, str]) -> str:
    """What the registry's page shows beside the version, where only its beginning fits."""
    words = [tags.get("verdict", "unjudged"), f"generation {tags.get('generation', '?')}"]
    origin = f", from {tags['parent']}" if "parent" in tags else ""
    return f"{', '.join(words)}: pair {tags['pair_id']}{origin}"
