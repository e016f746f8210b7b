"""What the requests of both endpoints share; nothing that is accepted is ignored."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from macaron.serve.http.body import Body
from macaron.serve.http.tool_schema import checked_schema

INT64 = 2**63


def whole(value: Any) -> Any:
    """JSON has one kind of number: 1.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Temperature = Annotated[float, Ge(0), Le(2)]
TopP = Annotated[float, Field(gt=0, le=1)]
Whole = Annotated[int, BeforeValidator(whole)]
Seed = Annotated[Whole, Field(ge=-INT64, lt=INT64)]
Count = Annotated[Whole, Field(ge=1)]
Zero = Annotated[float, Ge(0), Le(0)]
"""Of a penalty, which there is none of."""
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


def _only(wanted: bool) -> AfterValidator:
    def check(value: bool) -> bool:
        if value != wanted:
            raise PydanticCustomError("unsupported", "not supported")
        return value

    return AfterValidator(check)


# Not `Literal`, to which 0 and 1 are the same.
Off = Annotated[bool, _only(False), Field(json_schema_extra={"const": False})]
On = Annotated[bool, _only(True), Field(json_schema_extra={"const": True})]


class FunctionName(Body):
    """A tool by its name."""

    name: ToolName
