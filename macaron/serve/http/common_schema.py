"""What the requests of both endpoints share; nothing that is accepted is ignored."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from macaron.serve.http.body import Body
from macaron.serve.http.tool_schema import checked_schema

INT64 = 2**63
Temperature = Annotated[float, Ge(0), Le(2)]
TopP = Annotated[float, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=-INT64, lt=INT64)]
Count = Annotated[int, Field(ge=1)]
Zero = Annotated[float, Ge(0), Le(0)]
"""Of a penalty, which there is none of."""
Text = str
UserName = Annotated[str, StringConstraints(min_length=1, max_length=512)]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64)]
MetadataValue = Annotated[str, StringConstraints(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)]
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
CallId = Annotated[str, StringConstraints(min_length=1, max_length=128)]
ServiceTier = Literal["auto", "default"]
Parameters = Annotated[dict[str, Any], AfterValidator(checked_schema)]
"""JSON Schema of a tool's arguments."""
Choice = Literal["none", "auto", "required"]


def _true(value: bool) -> bool:
    if not value:
        raise PydanticCustomError("unsupported", "calls may be made in parallel")
    return value


Parallel = Annotated[bool, AfterValidator(_true), Field(json_schema_extra={"const": True})]


class FunctionName(Body):
    """A tool by its name."""

    name: ToolName
