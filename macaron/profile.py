"""Profiles: what a base needs to be trained and judged, one TOML file each."""

import tomllib
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from macaron.errors import ConfigError

Document = TypeVar("Document", bound=BaseModel)


class Section(BaseModel):
    """A strict, frozen part of a TOML document."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LoraConfig(Section):
    """The shape of every adapter of the profile."""

    rank: int = Field(gt=0, description="rank of the update matrices")
    alpha: int = Field(gt=0, description="the update is scaled by alpha / rank")


class GrpoConfig(Section):
    """One specialist's reinforcement learning."""

    steps: int = Field(gt=0, description="rounds of sampling and learning")
    prompts: int = Field(gt=0, description="prompts a step")
    group: int = Field(gt=1, description="responses a prompt; a group of one has no advantage")
    lr: float = Field(gt=0, description="peak learning rate")
    warmup: int = Field(ge=0, description="steps of linear warm-up")
    final_lr: float = Field(ge=0, le=1, description="share of the peak at the last step")
    epochs: int = Field(1, gt=0, description="optimizer steps on each step's rollouts")
    clip: float = Field(gt=0, description="probability-ratio clip, +- this; needs epochs > 1")
    temperature: float = Field(gt=0, description="of the rollouts trained on")
    max_grad_norm: float = Field(gt=0, description="gradient norm is clipped to this")
    routing_batch: int = Field(ge=0, description="labelled turns a step for the router (L0)")
    experience_batch: int = Field(ge=0, description="corrections and good turns a step")
    experience_weight: float = Field(ge=0, description="weight of their loss")
    pass_tokens: int = Field(
        1024, gt=0, description="tokens in one forward and backward pass; a whole group at least"
    )
    checkpoint_every: int = Field(5, gt=0, description="steps between checkpoints")
    zero_stage: int = Field(0, ge=0, le=2, description="DeepSpeed ZeRO, over the LoRA's optimizer")


class Profile(Section):
    """Everything that differs between a laptop and a cluster."""

    name: str = Field(description="its file's name without .toml")
    base: str = Field(description="folder of the base model, relative to the project")
    lora: LoraConfig = Field(description="the shape of every adapter")
    grpo: GrpoConfig = Field(description="one specialist's reinforcement learning")
    rollouts: int = Field(gt=0, description="champion's on-policy rollouts an environment, a night")
    sample_batch: int = Field(gt=0, description="responses sampled at once by one worker")
    dtype: Literal["float32", "bfloat16"] = Field(
        "float32", description="of weights and activations, in sampling and training alike"
    )
    sandbox: tuple[str, ...] = Field(
        (), description="isolation that must be active, by its names in docs/sandbox.md"
    )


def parse_toml(path: Path, kind: type[Document]) -> Document:
    """The document in a TOML file.

    Raises:
        ConfigError: one line naming the file, the field and what is allowed.
    """
    try:
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise ConfigError("no such file", where=str(path), mend="check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not TOML: {error}", where=str(path), mend="mend the syntax") from error
    except ValidationError as error:
        raise invalid(path, error) from error


def first_complaint(error: ValidationError) -> ErrorDetails:
    """The complaint to show: a misspelt key, and not that the right one is missing."""
    return min(error.errors(), key=lambda complaint: complaint["type"] != "extra_forbidden")


def invalid(where: str | Path, error: ValidationError, mend: str = "edit the file") -> ConfigError:
    """The foremost of pydantic's complaints as one line."""
    first = first_complaint(error)
    field = ".".join(str(part) for part in first["loc"]) or "document"
    more = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        return ConfigError(f"{field}: unknown key{more}", where=str(where), mend=mend)
    found = f", found {first['input']!r:.80}" if first["type"] != "missing" else ""
    complaint = first["msg"][:1].lower() + first["msg"][1:]
    return ConfigError(f"{field}: {complaint}{found}{more}", where=str(where), mend=mend)


def load_profile(path: Path) -> Profile:
    """The profile in a TOML file."""
    return parse_toml(path, Profile)
