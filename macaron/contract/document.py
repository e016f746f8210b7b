"""The evaluation contract: what a successor must prove. The loop reads it and can't write it."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from macaron.files import digest_value
from macaron.hcp.scope import Pattern
from macaron.profile import Section, parse_toml


class Suite(Section):
    """One set of sealed items, made fresh for every judgement."""

    name: str
    environment: str = Field(description="who makes and scores the items")
    specialist: str = Field(description="who answers them; routing is answered by the router")
    items: int = Field(gt=0, description="sealed items a judgement")
    role: Literal["improve", "guard"] = Field(
        description="improve: a gain here can promote; guard: it must only not get worse"
    )


class Gates(Section):
    """The statistics, on the same items for champion and challenger."""

    alpha: float = Field(gt=0, lt=0.5, description="family-wise, over the improve suites (Holm)")
    minimum_effect: float = Field(ge=0, le=1, description="least gain in success that counts")
    margin: float = Field(gt=0, le=1, description="non-inferiority margin, in success")


class ExperienceGate(Section):
    """What the night's experience must be like."""

    max_quarantined: float = Field(ge=0, le=1, description="share of bad rows that stops a cycle")
    other_hcp: Literal["refuse", "accept"] = Field(
        "refuse", description="served and imported turns made under another HCP than the champion's"
    )


class Contract(Section):
    """One versioned contract."""

    version: Literal["1.0"]
    name: str
    seed: int = Field(description="mixed into every sealed item's seed")
    suites: tuple[Suite, ...] = Field(min_length=1)
    gates: Gates
    experience: ExperienceGate
    rewritable: tuple[Pattern, ...] = Field(description="HCP paths that the loop may rewrite")

    @model_validator(mode="after")
    def _suites_are_named_once(self) -> "Contract":
        names = [suite.name for suite in self.suites]
        if len(set(names)) != len(names):
            raise ValueError(f"suites share a name: {names}")
        if all(suite.role == "guard" for suite in self.suites):
            raise ValueError("no suite has the role 'improve', so that nothing could promote")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the values."""
        return digest_value(self.model_dump(mode="json"))


def load_contract(path: Path) -> Contract:
    """The contract in a TOML file."""
    return parse_toml(path, Contract)
