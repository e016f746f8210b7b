"""The training job: all that one DeepSpeed launch needs, named by content.

What a specialist's training depends on has one digest, its `inputs`; the same inputs give the
same adapter revision.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from macaron.errors import ConfigError, DigestError
from macaron.files import (
    check_digest,
    digest_file,
    digest_tree,
    digest_value,
    read_json,
    write_json,
)
from macaron.hcp.document import load_hcp
from macaron.pair import base_digest
from macaron.profile import GrpoConfig, LoraConfig, Section, invalid


class Input(Section):
    """A file or folder and the digest it must have."""

    path: str
    digest: str = Field(description="SHA-256 of the file, or of the folder's tree")

    @classmethod
    def of(cls, path: Path) -> "Input":
        """The file or folder as it is now."""
        digest = digest_tree(path) if path.is_dir() else digest_file(path)
        return cls(path=str(path), digest=digest)

    def checked(self) -> Path:
        """The path, once its content is that of the digest.

        Raises:
            DigestError: it is missing or differs.
        """
        return check_digest(Path(self.path), self.digest)


class SpecialistJob(Section):
    """One specialist's training data and the adapter it starts from."""

    specialist: str
    parent: Input = Field(description="folder of the adapter that training starts from")
    tasks: Input = Field(description="JSONL of tasks, in the order of use")
    examples: Input = Field(
        description="JSONL of {messages, answer} or {prompt_ids, response_ids}, each with an "
        "optional weight, origin and digest of the HCP that it was made under"
    )
    routing: Input = Field(description="JSONL of routing tasks, whose reference is the label")

    @classmethod
    def of(
        cls, specialist: str, parent: Path, tasks: Path, examples: Path, routing: Path
    ) -> "SpecialistJob":
        """The job over files as they are now."""
        return cls(
            specialist=specialist,
            parent=Input.of(parent),
            tasks=Input.of(tasks),
            examples=Input.of(examples),
            routing=Input.of(routing),
        )

    def inputs(self) -> dict[str, Input]:
        """Every file it reads, by field."""
        return {name: getattr(self, name) for name in ("parent", "tasks", "examples", "routing")}


class TrainingJob(Section):
    """One launch: several specialists in turn on one resident base."""

    base: str = Field(description="folder of the base")
    base_digest: str
    hcp: str = Field(description="file of the harness")
    hcp_digest: str = Field(description="SHA-256 of the HCP's values")
    other_hcp: Literal["refuse", "accept"] = Field(
        "refuse", description="examples made under another HCP"
    )
    out: str = Field(description="folder of the results, one sub-folder a specialist")
    seed: int
    lora: LoraConfig
    grpo: GrpoConfig
    processes: int = Field(gt=0, description="data-parallel ranks")
    dtype: Literal["float32", "bfloat16"] = "float32"
    timeout: int = Field(gt=0, description="longest run, seconds")
    specialists: tuple[SpecialistJob, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _specialists_are_named_once(self) -> "TrainingJob":
        names = [s.specialist for s in self.specialists]
        if len(set(names)) != len(names):
            raise ValueError(f"a specialist is trained twice: {names}")
        return self

    def inputs_digest(self, specialist: SpecialistJob) -> str:
        """Digest of all that decides this specialist's adapter; no path is part of it."""
        return digest_value(
            {
                "base": self.base_digest,
                "hcp": self.hcp_digest,
                "seed": self.seed,
                "lora": self.lora.model_dump(),
                "grpo": self.grpo.model_dump(),
                "processes": self.processes,
                "dtype": self.dtype,
                "specialist": specialist.specialist,
                **{name: given.digest for name, given in specialist.inputs().items()},
            }
        )

    def folder(self, specialist: str) -> Path:
        """Where one specialist's results go."""
        return Path(self.out) / specialist


def write_job(job: TrainingJob, path: Path) -> Path:
    """The job as a JSON file."""
    return write_json(path, job.model_dump(mode="json"))


def load_job(path: Path) -> TrainingJob:
    """The job in a JSON file, once every input has the digest that the job gives.

    Raises:
        ConfigError: the file is missing or no job.
        DigestError: an input is missing or differs.
    """
    job = read_job(path)
    _same("base", base_digest(Path(job.base)), job.base_digest, job.base)
    _same("HCP", load_hcp(Path(job.hcp)).digest, job.hcp_digest, job.hcp)
    for specialist in job.specialists:
        for given in specialist.inputs().values():
            given.checked()
    return job


def read_job(path: Path) -> TrainingJob:
    """The job in a JSON file; its inputs are not looked at."""
    try:
        return TrainingJob.model_validate(read_json(path))
    except FileNotFoundError as error:
        raise ConfigError("no such training job", where=str(path)) from error
    except ValidationError as error:
        raise invalid(path, error) from error


def _same(what: str, found: str, expected: str, where: str) -> None:
    if found != expected:
        raise DigestError(
            f"{what} digest is {found[:12]}, the training job says {expected[:12]}",
            where=where,
            mend="run the cycle again, from its start",
        )
