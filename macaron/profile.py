"""Profiles: what a base needs to be trained and judged, one TOML file each."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from macaron.errors import ConfigError

MAX_BYTES = 4 << 20
"""Of a TOML document."""
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


class ExpandConfig(Section):
    """The search for a better harness while the model is frozen."""

    attempts: int = Field(0, ge=0, description="of the search; 0 leaves the step out")
    practice: int = Field(64, gt=0, description="bank tasks a specialist: failures and finals")
    unseen: int = Field(128, gt=0, description="fresh tasks a specialist that judge a winner")
    tries: int = Field(4, gt=0, description="under the widened harness, a failure")
    batch: int = Field(64, gt=0, description="attempts between two looks at what they showed")
    min_gain: float = Field(
        0.02, ge=0, le=1, description="the search ends when an attempt is expected to cover less"
    )
    population: int = Field(16, gt=0, description="candidates a specialist")
    finalists: int = Field(4, gt=1, description="candidates of the finals, a specialist")
    reflections: int = Field(2, ge=0, description="edits asked of the model, a specialist")


class Profile(Section):
    """Everything that differs between a laptop and a cluster."""

    name: str = Field(description="its file's name without .toml")
    base: str = Field(description="folder of the base model, relative to the project")
    lora: LoraConfig = Field(description="the shape of every adapter")
    grpo: GrpoConfig = Field(description="one specialist's reinforcement learning")
    expand: ExpandConfig = Field(
        ExpandConfig(), description="the search for a better harness, before the training"
    )
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
        ConfigError: one line naming the file, the field, what was found and what is allowed.
    """
    return parse_text(read_toml(path), kind, path)


def parse_text(text: str, kind: type[Document], where: str | Path) -> Document:
    """The document in TOML text that came from `where`; raises as `parse_toml` does."""
    try:
        return kind.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise invalid(where, error, kind=kind) from error
    except (ValueError, RecursionError) as error:
        # Not only TOMLDecodeError: Python refuses numbers of thousands of digits by itself.
        raise ConfigError(f"not TOML: {error}", where=str(where), mend="mend the syntax") from error


def read_toml(path: Path) -> str:
    """The text of a TOML file, its line ends as they are.

    Raises:
        ConfigError: it is missing, no plain file, too large, cannot be read or is no text.
    """
    if path.exists() and not path.is_file():
        raise ConfigError("is no file", where=str(path), mend="give a TOML file")
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            raise ConfigError(
                f"has {size:,} bytes, {MAX_BYTES:,} are allowed", where=str(path), mend="shorten it"
            )
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError("no such file", where=str(path), mend="check the path") from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"not TOML: {error}", where=str(path), mend="mend the syntax") from error


def first_complaint(error: ValidationError) -> ErrorDetails:
    """The complaint to show: a misspelt key, and not that the right one is missing."""
    return min(error.errors(), key=lambda complaint: complaint["type"] != "extra_forbidden")


def invalid(
    where: str | Path,
    error: ValidationError,
    mend: str = "edit the file",
    kind: type[BaseModel] | None = None,
) -> ConfigError:
    """The foremost of pydantic's complaints as one line.

    Args:
        where: the file or variable.
        error: the complaints.
        mend: what to do about them.
        kind: the document's type, from which the keys are named that an unknown one could be.
    """
    first = first_complaint(error)
    loc = first["loc"]
    # pydantic marks a complaint about a table's key, and not its value, so.
    about, loc = ("name ", loc[:-1]) if loc[-1:] == ("[key]",) else ("", loc)
    field = dotted(loc) or "document"
    more = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        known = known_keys(kind, loc[:-1])
        there = f"; there are {', '.join(known)}" if known else ""
        return ConfigError(f"{field}: unknown key{more}{there}", where=str(where), mend=mend)
    found = f", found {first['input']!r:.80}" if first["type"] != "missing" else ""
    message = first["msg"].removeprefix("Value error, ")
    complaint = about + message[:1].lower() + message[1:]
    return ConfigError(f"{field}: {complaint}{found}{more}", where=str(where), mend=mend)


def dotted(parts: Iterable[str | int]) -> str:
    """A field's path as TOML writes it: a key that is not bare stands in quotes."""
    return ".".join(
        str(part) if re.fullmatch(r"[A-Za-z0-9_-]+", str(part)) else _quoted(str(part))
        for part in parts
    )


def _quoted(key: str) -> str:
    # Not JSON's escapes, which write one letter beyond the first 65,536 as two halves.
    plain = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in key)
    return f'"{"".join(plain)}"'


def known_keys(kind: Any, parts: Iterable[str | int]) -> list[str]:
    """The keys of the section at a path of a document type; none where any key may stand."""
    for part in parts:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = kind.model_fields[str(part)].annotation
        else:
            # The values of a table, or the items of an array.
            inner = get_args(kind) or (None,)
            kind = inner[0] if isinstance(part, int) else inner[-1]
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def load_profile(path: Path) -> Profile:
    """The profile in a TOML file."""
    return parse_toml(path, Profile)
