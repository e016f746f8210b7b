"""POST /v1/feedback: what a user said of a turn."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from macaron.experience.schema import Feedback
from macaron.experience.times import now
from macaron.serve.http.body import Body
from macaron.serve.http.common_schema import Whole
from macaron.serve.http.errors import ApiError

Rating = Annotated[Whole, Field(ge=-1, le=1)]


def _says(name: str, kind: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"type": kind}}}


class FeedbackRequest(Body):
    """At least one of rating, correction and outcome; what is said later counts."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                _says("rating", "integer"),
                _says("correction", "string"),
                _says("outcome", "string"),
            ]
        }
    )

    id: Annotated[str, Field(min_length=1, max_length=128)]
    """Of a response or chat completion."""
    choice: Annotated[Whole, Field(ge=0, le=1000)] = 0
    """Which of a completion's answers."""
    rating: Rating | None = None
    correction: Annotated[str, Field(min_length=1)] | None = None
    """The answer that the user wanted instead."""
    outcome: Literal["success", "failure"] | None = None


def said(body: FeedbackRequest) -> tuple[str, Feedback]:
    """The turn, and what was said of it now.

    Raises:
        ApiError: nothing.
    """
    feedback = Feedback(body.rating, body.correction, body.outcome, now())
    if not feedback.given:
        raise ApiError(400, "Give a rating, a correction or an outcome.", param="rating")
    return f"{body.id}-{body.choice}" if body.choice else body.id, feedback
