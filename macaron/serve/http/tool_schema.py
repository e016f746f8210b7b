"""Checks of the JSON Schemas that clients describe their tools' arguments with."""

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic_core import PydanticCustomError

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def checked_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, if it is one of an object and stands by itself.

    Raises:
        PydanticCustomError: it does not.
    """
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        message = "not a JSON Schema: {why}"
        raise PydanticCustomError("schema", message, {"why": error.message[:200]}) from None
    if schema.get("type", "object") != "object":
        raise PydanticCustomError("schema", "the schema of a tool's arguments is of an object")
    if not _by_itself(schema):
        # Resolving one would have the server fetch an address that the client chose.
        raise PydanticCustomError("schema", "a $ref has to begin with #")
    return schema


def _by_itself(value: Any) -> bool:
    if isinstance(value, dict):
        for name in ("$ref", "$dynamicRef"):
            if isinstance(reference := value.get(name), str) and not reference.startswith("#"):
                return False
        if "$id" in value or ("$schema" in value and not isinstance(value["$schema"], str)):
            return False
        return all(_by_itself(inner) for inner in value.values())
    return all(map(_by_itself, value)) if isinstance(value, list) else True
