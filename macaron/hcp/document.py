"""HCP, the Harness Context Protocol: the document from which the harness is rebuilt.

Two documents with the same values have the same digest, whatever their order, comments or
whitespace.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from macaron.files import digest_value
from macaron.profile import Section, parse_toml

Surface = Literal["functions", "repl", "ui4a"]


class SpecialistConfig(Section):
    """How one specialist is prompted and sampled."""

    name: str = Field(description="the router's canonical label for it")
    system: str = Field(description="system prompt, put before every conversation")
    max_tokens: int = Field(gt=0, description="longest response, tokens")
    temperature: float = Field(ge=0, description="in serving; training sets its own")


class RouterConfig(Section):
    """How a turn finds its specialist."""

    system: str = Field(description="system prompt of the route hop, run on L0")
    default: str = Field(description="specialist for a turn whose route failed")


class HCP(Section):
    """One harness."""

    version: Literal["1.0"]
    router: RouterConfig
    specialists: dict[str, SpecialistConfig]

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
        """SHA-256 of the values."""
        return digest_value(self.model_dump(mode="json"))


def load_hcp(path: Path) -> HCP:
    """The HCP in a TOML file."""
    return parse_toml(path, HCP)
