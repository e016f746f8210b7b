"""What a row says of its answer: good, bad, or nothing. Read the same way everywhere."""

from dataclasses import dataclass

from macaron.experience.schema import Trajectory


@dataclass(frozen=True)
class Outcome:
    """The signals of one row."""

    corrected: bool
    """The user gave another answer."""
    verified: bool
    """The valid reward is 1."""
    praised: bool
    """Thumbs up, or success in the world."""
    failed: bool
    """Thumbs down, failure in the world, a valid reward below 1, or corrected."""
    told: bool
    """Whether there is any signal; a reward that is not valid is none."""

    @classmethod
    def of(cls, row: Trajectory) -> "Outcome":
        """The signals of the row."""
        said = row.feedback
        reward = row.reward if row.reward_valid else None
        corrected = said.correction is not None
        return cls(
            corrected=corrected,
            verified=reward is not None and reward >= 1,
            praised=said.rating == 1 or said.outcome == "success",
            failed=corrected
            or said.rating == -1
            or said.outcome == "failure"
            or (reward is not None and reward < 1),
            told=said.given or reward is not None,
        )
