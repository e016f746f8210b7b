"""Settings: macaron.toml, overridden by MACARON_* variables; an unknown key is an error.

The project's root is the nearest folder upwards that has a macaron.toml, or MACARON_ROOT.
"""

import os
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from macaron.errors import ConfigError
from macaron.profile import Section, first_complaint, invalid
from macaron.serving import ServeConfig

FILE = "macaron.toml"
SQLITE = "sqlite:///"
PREFIX = "MACARON_"


class Stores(Section):
    """Where records live; relative paths start at the project's root."""

    state: str = Field(".macaron", description="cycles, logs, caches, the local stores below")
    mlflow: str = Field("", description="MLflow tracking URI; empty: SQLite in the state folder")
    dvc_remote: str = Field("", description="DVC remote URL; empty: a folder in the state folder")
    pairs: str = Field("models/pairs", description="folder of the pairs")
    experience: str = Field("data/experience", description="folder of the Parquet partitions")
    inbox: str = Field("data/inbox", description="folder of chat JSONL that each cycle imports")
    workspace: str = Field("workspace", description="git worktree that the lineage is kept in")


class Budgets(Section):
    """What a cycle may use."""

    workers: int = Field(0, ge=0, description="processes; 0: one a core")
    step_timeout: int = Field(3600, gt=0, description="longest training or evaluation, seconds")
    min_free_disk: int = Field(1024, ge=0, description="MiB that must be free before a cycle")


class Settings(BaseSettings):
    """All settings of one project."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    profile: str = Field("nano", description="name of a file in models/profiles")
    contract: str = Field("contracts/v1.toml", description="evaluation contract")
    hcp: str = Field("contracts/hcp/nano.toml", description="harness of the ancestor pair")
    model_name: str = Field(
        "macaron", pattern=r"^[A-Za-z0-9_.-]+$", description="registered model in MLflow"
    )
    stores: Stores = Field(Stores(), description="where records live")
    budgets: Budgets = Field(Budgets(), description="what a cycle may use")
    serve: ServeConfig = Field(ServeConfig(), description="how turns are served")
    root: Path = Field(Path(), description="project root; MACARON_ROOT or found, never in the file")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment over file."""
        root = init_settings.init_kwargs["root"]  # type: ignore[attr-defined]
        return (
            init_settings,
            env_settings,
            TomlConfigSettingsSource(settings_cls, Path(root) / FILE),
        )

    def path(self, relative: str | Path) -> Path:
        """The absolute path of one that starts at the root."""
        return self.root / relative

    @cached_property
    def state(self) -> Path:
        """Folder of everything that running makes and nobody edits."""
        return self.path(self.stores.state)

    @cached_property
    def pairs(self) -> Path:
        """Folder of the pairs."""
        return self.path(self.stores.pairs)

    @cached_property
    def experience(self) -> Path:
        """Folder of the experience partitions."""
        return self.path(self.stores.experience)

    @cached_property
    def mlflow_uri(self) -> str:
        """Absolute MLflow tracking URI."""
        if not self.stores.mlflow:
            return f"{SQLITE}{self.state / 'mlflow' / 'mlflow.db'}"
        if self.stores.mlflow.startswith(SQLITE):
            return f"{SQLITE}{self.path(self.stores.mlflow.removeprefix(SQLITE))}"
        return self.stores.mlflow

    @cached_property
    def dvc_remote(self) -> str:
        """Absolute DVC remote URL."""
        if "://" in self.stores.dvc_remote:
            return self.stores.dvc_remote
        return str(self.path(self.stores.dvc_remote or self.state / "dvc-remote"))

    @cached_property
    def serve_keys(self) -> Path:
        """File of the API keys."""
        return self.path(self.serve.keys or self.state / "serve" / "keys.json")

    @cached_property
    def workers(self) -> int:
        """Processes to use."""
        return self.budgets.workers or cores()


def cores() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_root(start: Path | None = None) -> Path:
    """The project's root.

    Raises:
        ConfigError: there is no macaron.toml here or above.
    """
    if named := os.environ.get("MACARON_ROOT"):
        if not (Path(named) / FILE).exists():
            raise ConfigError(f"no {FILE} in {named}", where="MACARON_ROOT", mend="correct it")
        return Path(named).resolve()
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / FILE).exists():
            return folder
    raise ConfigError(f"no {FILE} here or above", where=str(here), mend="cd into the project")


def load_settings(root: Path | None = None) -> Settings:
    """The project's settings.

    Raises:
        ConfigError: one line naming the file or variable and the field.
    """
    found = root or find_root()
    _check_name(found)
    file = found / FILE
    _check_variables()
    _check_file(file)
    try:
        return Settings(root=found)
    except ValidationError as error:
        raise _located(file, error) from error
    except SettingsError as error:
        # Only a variable that holds a whole table is parsed, as JSON.
        raise ConfigError(
            "not JSON", where=_variable_in(str(error)), mend="set its keys one by one"
        ) from error


# Read by other parts than Settings.
OTHER_VARIABLES = {"MACARON_ROOT", "MACARON_FULL", "MACARON_SLOW", "MACARON_FAULT"}


def _check_variables() -> None:
    """pydantic-settings ignores unknown variables; a misspelt one must not be ignored."""
    for name in os.environ:
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        node: Any = Settings.model_fields
        for part in name.removeprefix(PREFIX).lower().split("__"):
            field = node.get(part) if isinstance(node, dict) else None
            if field is None:
                raise ConfigError("no such setting", where=name, mend="see `docs/ops.md`")
            kind = field.annotation
            node = kind.model_fields if isinstance(kind, type) and issubclass(kind, Section) else {}


def _check_name(root: Path) -> None:
    """Prefect and MLflow put the path into URLs of their databases as it is."""
    if odd := sorted(set(str(root)) & set("%?")):
        raise ConfigError(
            f"the project's path has {' and '.join(odd)}, which a database's URL cannot hold",
            where=str(root),
            mend="move the project to another folder",
        )


def _check_file(file: Path) -> None:
    """What would be ignored, or would be no ValidationError."""
    if not file.exists():
        return
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not TOML: {error}", where=str(file), mend="mend the syntax") from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(file)) from error
    if "root" in values:
        raise ConfigError("root: is not set here", where=str(file), mend="set MACARON_ROOT")


def _located(file: Path, error: ValidationError) -> ConfigError:
    """The complaint with the variable it is about, or the file."""
    parts = [str(part).upper() for part in first_complaint(error)["loc"]]
    for depth in range(len(parts), 0, -1):
        name = PREFIX + "__".join(parts[:depth])
        if name in os.environ:
            return invalid(name, error, mend="correct the variable")
    return invalid(file, error)


def _variable_in(complaint: str) -> str:
    """The variable that pydantic-settings names by its field only."""
    names = [n for n in os.environ if n.startswith(PREFIX)]
    fields = {n: f'"{n.removeprefix(PREFIX).lower()}"' for n in names}
    return next((n for n, field in fields.items() if field in complaint), "a MACARON_* variable")
