"""HCP, the Harness Context Protocol: the document from which the harness is rebuilt.

Two documents with the same values have the same digest, whatever their order, comments or
whitespace, and whether a default is written out or left out.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from macaron.files import digest_value
from macaron.hcp.migration import migrate, migrations
from macaron.hcp.references import check_references
from macaron.hcp.schema import (
    HookConfig,
    McpConfig,
    MemoryConfig,
    Part,
    PoolConfig,
    RouterConfig,
    SessionConfig,
    SkillConfig,
    SpecialistConfig,
    Surface,
    Table,
    ToolConfig,
    WorkspaceConfig,
)
from macaron.profile import parse_text, read_toml

__all__ = ["HCP", "Loaded", "SpecialistConfig", "Surface", "load_hcp", "parse_hcp", "read_hcp"]


class HCP(Part):
    """One harness. Values of an older minor are migrated when they are validated."""

    version: Literal["1.1"] = Field(description="of the schema: major.minor")
    router: RouterConfig = Field(description="how a turn finds its specialist")
    specialists: Table[SpecialistConfig] = Field(min_length=1, description="by key, such as L0")
    tools: Table[ToolConfig] = Field({}, description="allowlist, by name")
    skills: Table[SkillConfig] = Field({}, description="by name")
    mcp: Table[McpConfig] = Field({}, description="MCP servers, by name")
    hooks: Annotated[tuple[HookConfig, ...], Field(strict=False)] = Field(
        (), description="asked in this order"
    )
    memory: MemoryConfig = Field(MemoryConfig(), description="what of earlier turns is shown")
    session: SessionConfig = Field(SessionConfig(), description="limits of a session")
    workspace: WorkspaceConfig = Field(WorkspaceConfig(), description="limits of the sandbox")
    pool: PoolConfig = Field(PoolConfig(), description="when a saved helper becomes callable")

    @model_validator(mode="before")
    @classmethod
    def _current(cls, values: Any) -> Any:
        return migrate(values)

    @model_validator(mode="after")
    def _names_are_there(self) -> "HCP":
        check_references(self)
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the values that are not the defaults, under the major's first version."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return digest_value({**values, "version": f"{self.version.partition('.')[0]}.0"})


@dataclass(frozen=True)
class Loaded:
    """A document as it was read."""

    hcp: HCP
    migrations: tuple[str, ...]
    """What brought it to the current version, step by step; empty for one of this version."""


def load_hcp(path: Path) -> HCP:
    """The HCP in a TOML file.

    Raises:
        ConfigError: one line naming the file, the field, what was found and what is allowed.
    """
    return read_hcp(path).hcp


def read_hcp(path: Path) -> Loaded:
    """The HCP in a TOML file and how it was migrated; raises as `load_hcp` does."""
    return parse_hcp(read_toml(path), path)


def parse_hcp(text: str, where: str | Path) -> Loaded:
    """The HCP in TOML text that came from `where`; raises as `load_hcp` does."""
    hcp = parse_text(text, HCP, where)
    return Loaded(hcp, migrations(tomllib.loads(text)))
