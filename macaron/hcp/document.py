"""HCP, the Harness Context Protocol: the document from which the harness is rebuilt.

Two documents with the same values have the same digest, whatever their order, comments or
whitespace, and whether a default is written out or left out.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from macaron.files import digest_value
from macaron.hcp.schema import (
    HookConfig,
    Key,
    McpConfig,
    MemoryConfig,
    Part,
    PoolConfig,
    RouterConfig,
    SessionConfig,
    SkillConfig,
    SpecialistConfig,
    Surface,
    ToolConfig,
    WorkspaceConfig,
)
from macaron.profile import parse_toml

__all__ = ["HCP", "SpecialistConfig", "Surface", "load_hcp"]


class HCP(Part):
    """One harness."""

    version: Literal["1.0", "1.1"] = Field(description="of the schema: major.minor")
    router: RouterConfig = Field(description="how a turn finds its specialist")
    specialists: dict[Key, SpecialistConfig] = Field(min_length=1, description="by key: L0 to L3")
    tools: dict[Key, ToolConfig] = Field({}, description="allowlist, by name")
    skills: dict[Key, SkillConfig] = Field({}, description="by name")
    mcp: dict[Key, McpConfig] = Field({}, description="MCP servers, by name")
    hooks: Annotated[tuple[HookConfig, ...], Field(strict=False)] = Field(
        (), description="asked in this order"
    )
    memory: MemoryConfig = Field(MemoryConfig(), description="what of earlier turns is shown")
    session: SessionConfig = Field(SessionConfig(), description="limits of a session")
    workspace: WorkspaceConfig = Field(WorkspaceConfig(), description="limits of the sandbox")
    pool: PoolConfig = Field(PoolConfig(), description="when a saved helper becomes callable")

    @model_validator(mode="after")
    def _default_exists(self) -> "HCP":
        if self.router.default not in self.specialists:
            raise ValueError(f"router.default {self.router.default!r} is no specialist")
        names = [s.name for s in self.specialists.values()]
        if len(set(names)) != len(names):
            raise ValueError(f"specialists share a name: {names}")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the values that are not the defaults, under the major's first version."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return digest_value({**values, "version": f"{self.version.partition('.')[0]}.0"})


def load_hcp(path: Path) -> HCP:
    """The HCP in a TOML file."""
    return parse_toml(path, HCP)
