"""What one specialist's training left: written last, so that its existence means it is whole."""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from macaron.errors import DigestError
from macaron.files import check_digest, write_json
from macaron.mint.job import SpecialistJob, TrainingJob
from macaron.mint.probe import Probe, load_probe
from macaron.profile import Section

FILE = "result.json"
ADAPTER = "adapter"
PROBE = "probe.json"
CHECKPOINT = "checkpoint"


class Result(Section):
    """One specialist's outcome."""

    specialist: str
    inputs: str = Field(description="digest of all that it was trained from")
    revision: str = Field(description="digest of the adapter's folder")
    moved: bool = Field(description="False: no token was trained, and the parent is kept")
    folder: str = Field("", description="holds the adapter and its probe; known by whoever loads")
    summary: dict[str, Any] = Field(description="the learner's TrainingSummary")
    seconds: float

    @property
    def adapter(self) -> Path:
        """Folder of the adapter."""
        return Path(self.folder) / ADAPTER

    def probe(self) -> Probe | None:
        """The landing proof; None where nothing was trained and nothing has to land."""
        return load_probe(Path(self.folder) / PROBE) if self.moved else None


def write_result(result: Result) -> None:
    """Marks the specialist as finished."""
    write_json(Path(result.folder) / FILE, result.model_dump(mode="json", exclude={"folder"}))


def load_result(job: TrainingJob, specialist: SpecialistJob) -> Result | None:
    """The finished result of exactly these inputs, its adapter checked; None if there is none."""
    folder = job.folder(specialist.specialist)
    try:
        text = (folder / FILE).read_text(encoding="utf-8")
        result = Result.model_validate_json(text).model_copy(update={"folder": str(folder)})
        check_digest(result.adapter, result.revision)
    except (FileNotFoundError, ValidationError, DigestError):
        return None
    return result if result.inputs == job.inputs_digest(specialist) else None


def load_results(job: TrainingJob) -> dict[str, Result] | None:
    """Specialist -> result, once all of the job's are finished; else None."""
    found = {s.specialist: load_result(job, s) for s in job.specialists}
    done = {key: result for key, result in found.items() if result is not None}
    return done if done.keys() == found.keys() else None
